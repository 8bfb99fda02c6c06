//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package statustool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
)

// ownServer starts a server that the test may kill.
func ownServer(t *testing.T, start func(context.Context, *devpg.Config) (*devpg.Server, error)) *devpg.Server {
	t.Helper()
	srv, err := start(t.Context(), &devpg.Config{Durable: true})
	if err != nil {
		t.Skipf("no server of our own: %v", err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// migrated is a pool on a server of our own.
func migrated(t *testing.T, srv *devpg.Server) *pgxpool.Pool {
	t.Helper()
	pool := dbtest.PoolAt(t, srv.URL(), func(cfg *pgxpool.Config) { cfg.MaxConns = 20 })
	if err := migrations.Up(t.Context(), pool, nil); err != nil {
		t.Fatal(err)
	}
	return pool
}

// crowd follows calls and jobs to their ends.
type crowd struct {
	sync.WaitGroup
	t    *testing.T
	r    *reader
	mu   sync.Mutex
	ends map[toolcall.ID][]toolcall.Status
}

func newCrowd(t *testing.T, f *firm) *crowd {
	return &crowd{t: t, r: readerOf(defaultPoll, f.store, f.runner), ends: make(map[toolcall.ID][]toolcall.Status)}
}

// wait begins to follow, and returns when all do.
func (c *crowd) wait(n int, ids ...toolcall.ID) {
	c.t.Helper()
	for i := range n {
		c.Go(func() {
			id := ids[i%len(ids)]
			s, err := c.r.follow(c.t.Context(), toolcall.Ask{Scope: scope, ID: id}, 5*time.Minute, nil)
			if err != nil {
				c.t.Errorf("%s: %v", id, err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ends[id] = append(c.ends[id], s)
		})
	}
	eventually(c.t, fmt.Sprintf("%d wait", n), func() bool {
		c.r.poller.mu.Lock()
		defer c.r.poller.mu.Unlock()
		return len(c.r.poller.waiting) == n
	})
}

// hear waits for the ends, which are all of this state.
func (c *crowd) hear(id toolcall.ID, state toolcall.State) {
	c.t.Helper()
	c.Wait()
	for _, s := range c.ends[id] {
		if s.State != state {
			c.t.Fatalf("a waiter was told %+v, want %s", s, state)
		}
	}
	if len(c.ends[id]) == 0 {
		c.t.Errorf("nobody waited for %s", id)
	}
}

// eventually polls until cond is true. It is for what no signal tells the test of.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after a minute: %s", what)
		}
	}
}

// questioner asks all the time, and notes what it is told.
type questioner struct {
	sync.WaitGroup
	stop context.CancelFunc
	said map[toolcall.State]int
}

func askAllTheTime(t *testing.T, session *mcp.ClientSession, ask args) *questioner {
	ctx, stop := context.WithCancel(t.Context())
	q := &questioner{stop: stop, said: make(map[toolcall.State]int)}
	q.Go(func() {
		for ctx.Err() == nil {
			q.said[reportIn(t, do(t, session, "get_status", ask)).State]++
		}
	})
	t.Cleanup(func() { stop(); q.Wait() })
	return q
}

// only checks that nothing was said but this.
func (q *questioner) only(t *testing.T, what string, states ...toolcall.State) {
	t.Helper()
	q.stop()
	q.Wait()
	for state, n := range q.said {
		if !slices.Contains(append(states, StateUnavailable), state) {
			t.Errorf("%s: told %d times that it is %s", what, n, state)
		}
	}
	t.Logf("%s: %v", what, q.said)
}

const sqlStarted = `select pg_postmaster_start_time()::text`

// TestFollow_S02_S03_PostgresRestarts: who began to wait before hears the true end, and nothing false is said meanwhile. Who waits for a
// call and who waits for a job are asked for in one look.
func TestFollow_S02_S03_PostgresRestarts(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartSupervised)
	f := newFirm(t, migrated(t, srv), Config{}, true)
	session := f.shop(t).connect(nil)
	do(t, session, "issue_refund", args{"order": "A", "idempotency_key": "done"})
	done := callID("issue_refund", "done")
	h, ok := handleIn(mustMarshal(t, do(t, session, "request_report", args{"order": orderHold, "idempotency_key": "job"}).StructuredContent))
	if !ok {
		t.Fatal("no handle")
	}
	ctx, leave := context.WithCancel(t.Context())
	cut := make(chan *mcp.CallToolResult, 1)
	go func() {
		r, _ := session.CallTool(ctx, &mcp.CallToolParams{Name: "issue_refund", Arguments: args{"order": orderHold + " call", "idempotency_key": "cut"}})
		cut <- r
	}()
	until(t, session, args{"id": callID("issue_refund", "cut").String()}, toolcall.StateRunning)
	until(t, session, args{"id": h.String()}, toolcall.StateRunning)
	c := newCrowd(t, f)
	c.wait(100, h, callID("issue_refund", "cut"))
	ofCall := askAllTheTime(t, f.shop(t).connect(nil), args{"id": done.String()})
	ofJob := askAllTheTime(t, f.shop(t).connect(nil), args{"id": h.String(), "wait_seconds": 1})
	var before string
	if err := f.pool.QueryRow(t.Context(), sqlStarted).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(srv.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is another one", func() bool {
		var now string
		return f.pool.QueryRow(t.Context(), sqlStarted).Scan(&now) == nil && now != before
	})
	leave() // else the call would run once more by itself
	if r := <-cut; r != nil {
		t.Errorf("the call was cut off, and is answered %+v", r.StructuredContent)
	}
	close(f.goOn) // the job's attempt, or the next one, goes on
	for range 3 { // and the connections that are new break as well
		eventually(t, "all are thrown out", func() bool {
			_, err := f.pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`)
			return err == nil
		})
	}
	c.hear(h, toolcall.StateSucceeded)
	c.hear(callID("issue_refund", "cut"), toolcall.StateNone)
	if n, lost := f.effects(t, orderHold), f.effects(t, orderHold+" call"); n != 1 || lost != 0 {
		t.Errorf("%d effects of the job, %d of the call that was cut off", n, lost)
	}
	ofCall.only(t, "a call that was done", toolcall.StateSucceeded)
	ofJob.only(t, "a job that goes on", toolcall.StateQueued, toolcall.StateRunning, toolcall.StateSucceeded)
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGet_S02_R08_HotStandby: what has ended is told. What is not there, or not ended, may be so on the primary, and is not known: a
// call or a job that has committed there is never none here, nor an effect that ended there cut off.
func TestGet_S02_R08_HotStandby(t *testing.T) {
	t.Parallel()
	primary := ownServer(t, devpg.StartOwn)
	f := newFirm(t, migrated(t, primary), Config{}, false)
	standby := ownServer(t, func(ctx context.Context, cfg *devpg.Config) (*devpg.Server, error) {
		return devpg.StartStandby(ctx, primary, cfg)
	})
	replica := dbtest.PoolAt(t, standby.URL(), nil)
	session := f.shop(t).connect(nil)
	do(t, session, "issue_refund", args{"order": "A", "idempotency_key": "early"})
	early := cancelledJob(t, session, "early")
	do(t, session, "charge_card", args{"order": orderCut, "idempotency_key": "k"}) // cut off, as far as is known
	eventually(t, "the standby has it all", func() bool {
		var n int
		return replica.QueryRow(t.Context(), `select count(*)::int from txonce.call`).Scan(&n) == nil && n == 3
	})
	if _, err := replica.Exec(t.Context(), `select pg_wal_replay_pause()`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replay is paused", func() bool {
		var state string
		return replica.QueryRow(t.Context(), `select pg_get_wal_replay_pause_state()`).Scan(&state) == nil && state == "paused"
	})
	do(t, session, "issue_refund", args{"order": "B", "idempotency_key": "late"})
	late := cancelledJob(t, session, "late")
	behind, err := openFirm(replica, Config{})
	if err != nil {
		t.Fatal(err)
	}
	blind := behind.shop(t).connect(nil)
	for label, c := range map[string]struct {
		ask  args
		want toolcall.State
	}{
		"a call that was done":             {args{"tool": "issue_refund", "idempotency_key": "early"}, toolcall.StateSucceeded},
		"a job that has ended":             {args{"id": early}, toolcall.StateCancelled},
		"a call that was done since":       {args{"tool": "issue_refund", "idempotency_key": "late"}, StateUnavailable},
		"a job that was submitted since":   {args{"id": late}, StateUnavailable},
		"a job that never was":             {args{"id": jobID(1).String()}, StateUnavailable},
		"a call that never was":            {args{"id": callID("issue_refund", "never").String()}, StateUnavailable},
		"an effect that had not ended":     {args{"tool": "charge_card", "idempotency_key": "k"}, StateUnavailable},
		"a call, by an id of another tool": {args{"id": callID("other", "never").String()}, StateUnavailable},
	} {
		if got := reportIn(t, do(t, blind, "get_status", c.ask)); got.State != c.want {
			t.Errorf("%s: %+v, want %s", label, got, c.want)
		}
	}
	if _, err := replica.Exec(t.Context(), `select pg_promote()`); err != nil {
		t.Fatal(err)
	}
	if got := reportIn(t, do(t, blind, "get_status", args{"id": jobID(1).String()})); got.State != toolcall.StateNone {
		t.Errorf("promoted: %+v", got)
	}
}

// cancelledJob submits a job and cancels it.
func cancelledJob(t *testing.T, session *mcp.ClientSession, key string) string {
	t.Helper()
	h := do(t, session, "request_report", args{"order": orderLater, "idempotency_key": key}).StructuredContent.(map[string]any)
	if r := do(t, session, "cancel_job", args{"id": h["job_id"]}); r.IsError {
		t.Fatal(errors.New(r.Content[0].(*mcp.TextContent).Text))
	}
	return h["job_id"].(string)
}
