package txidemtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/txidemtest"
)

// fault is a tool with a planted fault, and where it must be found. Each word of in is in the name of a point at which
// something is found.
type fault struct {
	call func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error)
	in   []string
	says string // is in one of the findings
}

func TestCheck_R02_FindsPlantedFaults(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"an effect outside tx":                {always(calls(outsideTx)), []string{"killed", "cut before the record", "cancelled", "refused"}, "insert into effect"},
		"an upsert outside tx":                {always(calls(upsertOutsideTx)), []string{"killed", "record and commit refused with 53100"}, "outside tx"},
		"an effect in a defer by the pool":    {always(calls(inADefer)), []string{"panic before", "refused with 53100"}, "outside tx"},
		"an effect by the pool after Run":     {always(afterRun), []string{"killed after the record"}, "0 effects"},
		"an effect by the pool before Run":    {always(beforeRun), []string{"in a row", "at once"}, "outside tx"},
		"an effect where ctx has ended":       {always(calls(whereCtxEnded)), []string{"cancelled inside statement 1"}, "outside tx"},
		"a goroutine that outlives the call":  {always(calls(outlives)), []string{"in a row"}, "2 effects"},
		"a goroutine with the effect":         {always(calls(inAGoroutine)), []string{"panic", "cut"}, "effects"},
		"COMMIT by raw SQL":                   {always(calls(rawCommit)), []string{"in a row"}, "raw SQL"},
		"COMMIT and BEGIN by the connection":  {always(calls(rawCommitAndBegin)), []string{"in a row"}, "raw SQL"},
		"a kept tx":                           {always(keptTx), []string{"in a row"}, "kept"},
		"a kept connection":                   {always(keptConn), []string{"in a row"}, "2 effects"},
		"a connection that is not given back": {neverReleased, []string{"in a row"}, "not given back"},
		"a transaction of its own, left open": {leftOpen, []string{"in a row"}, "not given back"},
		"a session's lock":                    {always(calls(sessionLock)), []string{"in a row"}, "advisory lock"},
		"a swallowed error":                   {always(calls(swallows)), []string{"refused with 53100"}, "swallowed"},
		"a swallowed error in a savepoint":    {always(calls(swallowsInSavepoint)), []string{"refused with 53100"}, "swallowed"},
		"a savepoint left open":               {always(calls(leavesSavepoint)), []string{"refused with 53100"}, "swallowed"},
		"success whatever the error":          {always(alwaysDone), []string{"cut inside statement 1"}, "swallowed"},
		"done, says the process's memory":     {remembers, []string{"record and commit refused with 53100"}, "memory"},
		"done, says the handler's memory":     {handlerRemembers, []string{"panic after", "cut before the record"}, "memory"},
		"a goroutine that writes much later":  {muchLater, []string{"in the end"}, "outlives the call"},
		"looks first, and then takes any key": {looksFirst, []string{"at once"}, "2 effects"},
		"a key for each attempt":              {keyPerAttempt, []string{"in a row", "at once"}, "another key"},
		"a key for each process":              {always(keyPerProcess), []string{"killed before the reply"}, "another key"},
		"another key after an error":          {always(otherKeyAfterAnError), []string{"panic"}, "another key"},
		"arguments for each attempt":          {argsPerAttempt, []string{"in a row"}, "other arguments"},
		"an answer for each attempt":          {answerPerAttempt, []string{"in a row"}, "the answer changed"},
		"a call in a call":                    {always(calls(nested)), []string{"in a row"}, "protected call"},
		"no protection":                       {always(unprotected), []string{"in a row"}, "must use txidem"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test := ""
			if strings.Contains(strings.Join(f.in, " "), "killed") {
				test = t.Name()
			}
			found, _ := check(t, test, txidemtest.Tool{Call: f.call(t)})
			f.isFound(t, found)
		})
	}
}

func (f fault) isFound(t *testing.T, found []txidemtest.Finding) {
	t.Helper()
	points, problems := "", ""
	for _, finding := range found {
		points += finding.Point + "\n"
		problems += finding.Problem + "\n"
	}
	for _, point := range f.in {
		if !strings.Contains(points, point) {
			t.Errorf("nothing is found at %q", point)
		}
	}
	if !strings.Contains(problems, f.says) {
		t.Errorf("no finding says %q", f.says)
	}
	if t.Failed() || len(found) == 0 {
		t.Errorf("%d findings at\n%s%s", len(found), points, problems)
	}
}

func always(call func(context.Context, *pgxpool.Pool, int) ([]byte, error)) func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) { return call }
}

func outsideTx(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := pool.Exec(ctx, sqlEffect, intent)
	return "done", err
}

func upsertOutsideTx(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := pool.Exec(ctx, `insert into effect select $1 where not exists (select from effect where intent = $1)`, intent)
	return "done", err
}

func inADefer(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	defer func() { _, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent) }()
	_, err := tx.Exec(ctx, sqlNote, intent)
	return "done", err
}

func afterRun(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	ran := false
	raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		ran = true
		_, err := tx.Exec(ctx, sqlNote, intent)
		return "done", err
	})
	if ran && err == nil {
		_, err = pool.Exec(ctx, sqlEffect, intent)
	}
	return raw, err
}

func beforeRun(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	if _, err := pool.Exec(ctx, sqlEffect, intent); err != nil {
		return nil, err
	}
	return run(ctx, pool, request(intent), intent, func(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		_, err := tx.Exec(ctx, sqlNote, intent)
		return "done", err
	})
}

func whereCtxEnded(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, err := insert(ctx, pool, tx, intent)
	if ctx.Err() != nil {
		_, err = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
	}
	return "done", err
}

func outlives(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	go func() {
		<-ctx.Done() // the call is over
		_, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
	}()
	return insert(ctx, pool, tx, intent)
}

func inAGoroutine(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	go func() { _, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent) }()
	_, err := tx.Exec(ctx, sqlNote, intent)
	return "done", err
}

func rawCommit(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	_, err := tx.Exec(ctx, `commit`)
	return "done", err
}

func rawCommitAndBegin(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	return "done", tx.Conn().PgConn().Exec(ctx, `commit; begin`).Close()
}

func keptTx(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	var kept pgx.Tx
	raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		kept = tx
		return insert(ctx, pool, tx, intent)
	})
	if err == nil && kept != nil {
		_, err = kept.Exec(ctx, sqlNote, intent)
	}
	return raw, err
}

func keptConn(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	var kept *pgx.Conn
	raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		kept = tx.Conn()
		return insert(ctx, pool, tx, intent)
	})
	if err == nil && kept != nil {
		_, err = kept.Exec(ctx, sqlEffect, intent)
	}
	return raw, err
}

func neverReleased(t *testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return "", err
		}
		t.Cleanup(conn.Release) // or this process would not end well
		return insert(ctx, pool, tx, intent)
	})
}

func leftOpen(t *testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		own, err := pool.Begin(ctx)
		if err != nil {
			return "", err
		}
		t.Cleanup(func() { _ = own.Rollback(context.WithoutCancel(ctx)) })
		return insert(ctx, pool, tx, intent)
	})
}

func sessionLock(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := tx.Exec(ctx, `select pg_advisory_lock($1)`, intent); err != nil {
		return "", err
	}
	return insert(ctx, pool, tx, intent)
}

func swallows(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, _ = tx.Exec(ctx, sqlEffect, intent)
	return "done", nil
}

func swallowsInSavepoint(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	if _, err := insert(ctx, pool, inner, intent); err != nil {
		return "done", inner.Rollback(ctx)
	}
	return "done", inner.Commit(ctx)
}

func leavesSavepoint(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	if _, err := insert(ctx, pool, inner, intent); err == nil {
		_ = inner.Commit(ctx)
	}
	return "done", nil
}

func alwaysDone(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	_, err := run(ctx, pool, request(intent), intent, insert)
	if errors.Is(err, txidem.ErrInProgress) {
		return nil, err
	}
	return []byte("done"), nil
}

// memory is what a process remembers of intents.
type memory struct{ sync.Map }

func (m *memory) has(intent int) bool { _, ok := m.Load(intent); return ok }

func remembers(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	m := &memory{}
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		if m.has(intent) {
			return []byte(`"done"`), nil
		}
		return run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
			answer, err := insert(ctx, pool, tx, intent)
			if err == nil {
				m.Store(intent, true)
			}
			return answer, err
		})
	}
}

func handlerRemembers(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	m := &memory{}
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		if m.has(intent) {
			return "done", nil
		}
		defer m.Store(intent, true)
		return insert(ctx, pool, tx, intent)
	})
}

// counter returns a function that gives another number each time.
func counter() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}

func keyPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		req := request(intent)
		req.Key = fmt.Sprint(req.Key, "-", next())
		return run(ctx, pool, req, intent, insert)
	}
}

func keyPerProcess(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	req := request(intent)
	req.Key = fmt.Sprint(req.Key, "-", os.Getpid())
	return run(ctx, pool, req, intent, insert)
}

func otherKeyAfterAnError(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	req := request(intent)
	raw, err := run(ctx, pool, req, intent, insert)
	if err != nil {
		req.Key += "-again"
		return run(context.WithoutCancel(ctx), pool, req, intent, insert)
	}
	return raw, nil
}

func argsPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		req := request(intent)
		req.Args = fmt.Appendf(nil, `{"nonce":%d}`, next())
		return run(ctx, pool, req, intent, insert)
	}
}

// muchLater writes for the first intent when the handler runs for the tenth.
func muchLater(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	tenth, next := make(chan struct{}), counter()
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		switch next() {
		case 1:
			go func() {
				<-tenth
				_, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
			}()
		case 10:
			close(tenth)
		}
		return insert(ctx, pool, tx, intent)
	})
}

func looksFirst(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		var n int
		if err := pool.QueryRow(ctx, sqlCount, intent).Scan(&n); err != nil || n > 0 {
			return []byte(`"done"`), err
		}
		req := request(intent)
		req.Key = fmt.Sprint(req.Key, "-", next())
		return run(ctx, pool, req, intent, insert)
	}
}

func answerPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		raw, err := run(ctx, pool, request(intent), intent, insert)
		return fmt.Appendf(raw, " at %d", next()), err
	}
}

func nested(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := run(ctx, pool, request(-intent), intent, insert)
	return "done", err
}

func unprotected(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	_, err := pool.Exec(ctx, `insert into effect select $1 where not exists (select from effect where intent = $1)`, intent)
	return []byte("done"), err
}
