package statustool

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// meter is told of each statement that a pool sends, and looks at the pool then.
type meter struct {
	mu    sync.Mutex
	pool  *pgxpool.Pool
	texts []string // in order, a batch as its statements
	locks []int    // of how many calls the locks were looked for, each time
	peak  int32    // of the connections that were in use
}

func (m *meter) sent(sql string, args []any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.texts = append(m.texts, sql)
	if strings.Contains(sql, "from pg_locks") {
		m.locks = append(m.locks, len(args[0].([]int64)))
	}
	if m.pool != nil {
		m.peak = max(m.peak, m.pool.Stat().AcquiredConns())
	}
}

func (m *meter) take() (texts []string, locks []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	texts, locks = m.texts, m.locks
	m.texts, m.locks = nil, nil
	return texts, locks
}

func (m *meter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	m.sent(data.SQL, data.Args)
	return ctx
}
func (m *meter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (m *meter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		m.sent(q.SQL, q.Arguments)
	}
	return ctx
}
func (m *meter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (m *meter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// metered is a pool of ten whose statements are counted.
func metered(t *testing.T, url string) (*pgxpool.Pool, *meter) {
	t.Helper()
	m := &meter{}
	pool := dbtest.PoolAt(t, url, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.ConnConfig.Tracer = 10, m })
	m.mu.Lock()
	m.pool = pool
	m.mu.Unlock()
	return pool, m
}

// TestFollow_S03_ThousandWaitersOfRealCallsAndJobs: 900 calls run in one transaction, and 100 jobs wait, all elsewhere. Those who wait
// for them take three connections of a pool of ten at most, one read of the locks does for all, and each hears of its end.
func TestFollow_S03_ThousandWaitersOfRealCallsAndJobs(t *testing.T) {
	t.Parallel()
	const calls, works = 900, 100
	url := dbtest.URL(t)
	elsewhere := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, false)
	pool, m := metered(t, url)
	f, err := openFirm(pool, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []toolcall.ID
	tx, err := elsewhere.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for i := range calls {
		req := txidem.Request{Scope: scope, Tool: "issue_refund", Key: strconv.Itoa(i)}
		r, err := txidem.RunTx(t.Context(), tx, elsewhere.store, req, func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			return receipt{Refund: req.Key}, effect(ctx, tx, req.Key)
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	for range works {
		ids = append(ids, elsewhere.submit(t, order{"J"}))
	}
	c := newCrowd(t, f)
	c.wait(len(ids), ids...)
	looked := func(n int) func() bool {
		return func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.locks) >= n && m.locks[len(m.locks)-1] == calls
		}
	}
	eventually(t, "the look that was under way when the last one came is over", looked(1))
	m.take()
	eventually(t, "they have been looked for three times", looked(3))
	_, locks := m.take()
	for _, n := range locks {
		if n != calls {
			t.Errorf("the locks of %d calls were looked for at a time, want %d", n, calls)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	(&office{t: t, runner: elsewhere.runner}).start()
	c.Wait()
	for _, id := range ids {
		c.hear(id, toolcall.StateSucceeded)
	}
	if m.peak > lanes+1 || m.peak == 0 {
		t.Errorf("%d connections at a time", m.peak)
	}
}

// submit submits a job in a transaction of its own.
func (f *firm) submit(t *testing.T, in order) (id toolcall.ID) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) (err error) {
		id, err = submitTx(t.Context(), tx, f, in.Order)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func submitTx(ctx context.Context, tx pgx.Tx, f *firm, label string) (toolcall.ID, error) {
	h, err := f.report.SubmitTx(ctx, tx, f.runner, order{label}, &jobs.SubmitOpts{Scope: scope})
	if err != nil {
		return toolcall.ID{}, err
	}
	return toolcall.ParseID(h.JobID)
}

// TestGet_S05_ForeignCostsWhatUnknownDoes: the very same statements, and as many, for calls and for jobs, by id and by tool and key, in
// each state that another caller's may have.
func TestGet_S05_ForeignCostsWhatUnknownDoes(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	f := newFirm(t, dbtest.PoolAt(t, url, nil), Config{}, true)
	all := become(t, f)
	pool, m := metered(t, url)
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := jobs.New(pool, firmJobs(), f.report)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader([]toolcall.Source{store, runner}, defaultPoll, nil)
	cost := func(id toolcall.ID) string {
		t.Helper()
		for range 3 { // the first ones describe the statements
			m.take()
			if s, err := r.follow(t.Context(), toolcall.Ask{Scope: "mallory", ID: id}, time.Second, nil); err != nil || s.State != toolcall.StateNone || s.Tool != "" || s.Job != nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
		texts, _ := m.take()
		return strings.Join(texts, "\n;\n")
	}
	unknown := map[bool]string{false: cost(callID("issue_refund", "of nobody")), true: cost(jobID(7))}
	if strings.Count(unknown[false], "pg_locks") != 1 || strings.Contains(unknown[true], "pg_locks") {
		t.Errorf("%+v", unknown)
	}
	for label, c := range all {
		id, err := toolcall.ParseID(c.id)
		if err != nil {
			t.Fatal(err)
		}
		if got := cost(id); got != unknown[isJob(id)] {
			t.Errorf("%s of another caller:\n%s\nunknown:\n%s", label, got, unknown[isJob(id)])
		}
	}
	// By tool and key another caller names another id: what it costs is asked for by its own.
	if got := cost(toolcall.NewID("mallory", "issue_refund", "x:a call that was done")); got != unknown[false] {
		t.Errorf("by tool and key:\n%s", got)
	}
}
