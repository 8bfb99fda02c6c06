package intent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// office is a server on Postgres, over HTTP, whose get_status is the one of package statustool.
type office struct {
	*world
	pool   *pgxpool.Pool
	url    string
	before func(ctx context.Context, run int32) error // in the handler of issue_refund, in front of its effect
	onAsk  func(times int)                            // when get_status has been asked so many times
	runs   atomic.Int32
	begun  chan struct{} // closed when the first run has begun
	gate   chan struct{}
	open   func()      // opens the gate
	first  atomic.Bool // call has been sent

	states []string // what get_status answered, whether or not that arrived; under world.mu
}

func newOffice(t *testing.T) *office {
	t.Helper()
	w, pool := onPostgres(t)
	o := &office{world: w, pool: pool, begun: make(chan struct{}), gate: make(chan struct{})}
	o.open = sync.OnceFunc(func() { close(o.gate) })
	store, err := txidem.New(pool, &txidem.Config{Policy: &txidem.Policy{Wait: txidem.NoWait}})
	if err != nil {
		t.Fatal(err)
	}
	report := jobs.Define("build_report", func(context.Context, *jobs.Job[refund]) (jobs.Commit[receipt], error) {
		return nil, errors.New("nobody works here")
	}, nil)
	runner, err := jobs.New(pool, nil, report)
	if err != nil {
		t.Fatal(err)
	}
	o.server = mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)
	idem, err := mcpidem.New(o.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")})
	if err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(idem, &mcp.Tool{Name: "issue_refund"}, o.refund)
	mcpidem.AddTool(idem, &mcp.Tool{Name: "request_report"}, func(ctx context.Context, tx pgx.Tx, in refund) (jobs.Handle, error) {
		return report.SubmitTx(ctx, tx, runner, in, nil)
	})
	if err := statustool.Add(idem, nil, store, runner); err != nil {
		t.Fatal(err)
	}
	o.server.AddReceivingMiddleware(o.listen)
	served := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return o.server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(served.Close)
	t.Cleanup(o.open)
	o.url = served.URL
	return o
}

func (o *office) refund(ctx context.Context, tx pgx.Tx, in refund) (out receipt, err error) {
	run := o.runs.Add(1)
	if run == 1 {
		close(o.begun)
	}
	if o.before != nil {
		if err := o.before(ctx, run); err != nil {
			return out, err
		}
	}
	out.Cents = in.Cents
	err = tx.QueryRow(ctx, `insert into refund (order_id, cents) values ($1, $2) returning id`, in.Order, in.Cents).Scan(&out.Refund)
	return out, err
}

// pass waits in the handler until the gate is open.
func (o *office) pass(ctx context.Context, _ int32) error {
	select {
	case <-o.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen notes the state in each answer of get_status.
func (o *office) listen(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		params, _ := req.GetParams().(*mcp.CallToolParamsRaw)
		if r, ok := result.(*mcp.CallToolResult); ok && params != nil && params.Name == "get_status" {
			var said statustool.Report
			if raw, ok := r.StructuredContent.(json.RawMessage); ok {
				_ = json.Unmarshal(raw, &said)
			}
			o.mu.Lock()
			o.states = append(o.states, string(said.State))
			times := len(o.states)
			o.mu.Unlock()
			if o.onAsk != nil {
				o.onAsk(times)
			}
		}
		return result, err
	}
}

// told is what get_status has answered.
func (o *office) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.states)
}

func (o *office) number(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := o.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// connect opens a session of a client that asks get_status. lose says what becomes of its first call; nil loses none. attempt is
// Config.Attempt.
func (o *office) connect(t *testing.T, lose loss, attempt time.Duration) *mcp.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := o.world.open(t, o.url, roundTripper(func(r *http.Request) (*http.Response, error) {
		name := r.Header.Get("Mcp-Name")
		if lose == nil || name != "issue_refund" && name != "request_report" || o.first.Swap(true) {
			return transport.RoundTrip(r)
		}
		lose(t, o, r, transport)
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}), &intent.Config{StatusTool: "get_status", Deadline: time.Minute, Attempt: attempt, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// loss is what happens to a call, behind which its connection breaks.
type loss func(t *testing.T, o *office, r *http.Request, next http.RoundTripper)

func lostBefore(*testing.T, *office, *http.Request, http.RoundTripper) {}

// answerLost has the call end first.
func answerLost(_ *testing.T, _ *office, r *http.Request, next http.RoundTripper) {
	if response, err := next.RoundTrip(r); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

// lostAtWork breaks the connection while the handler runs.
func lostAtWork(_ *testing.T, o *office, r *http.Request, next http.RoundTripper) {
	ctx, hangUp := context.WithCancel(r.Context())
	defer hangUp()
	go func() {
		select {
		case <-o.begun:
			hangUp()
		case <-ctx.Done():
		}
	}()
	answerLost(nil, o, r.WithContext(ctx), next)
}

// lostForLong has the record of the call expire before anybody asks.
func lostForLong(t *testing.T, o *office, r *http.Request, next http.RoundTripper) {
	answerLost(t, o, r, next)
	if _, err := o.pool.Exec(context.WithoutCancel(r.Context()), `update txonce.call set expires_at = now() - interval '1 second'`); err != nil {
		t.Error(err)
	}
}

// TestMiddleware_M10_S02_LostAnswersAreAskedFor: with the status tool that there is, on Postgres and over a network, a lost answer is asked for, and
// the call is not done twice.
func TestMiddleware_M10_S02_LostAnswersAreAskedFor(t *testing.T) {
	t.Parallel()
	once := func(err error) func(*office) {
		return func(o *office) {
			o.before = func(_ context.Context, run int32) error {
				if run > 1 {
					return nil
				}
				return err
			}
		}
	}
	for label, c := range map[string]struct {
		lose    loss
		prepare func(*office)
		tool    string
		states  []string // the first of them may come more often
		calls   int
		runs    int32
		rows    int // refunds and jobs
		err     error
		fails   bool
	}{
		"it was done":              {lose: answerLost, states: []string{"succeeded"}, calls: 2, runs: 1, rows: 1},
		"it never arrived":         {lose: lostBefore, states: []string{"none"}, calls: 2, runs: 1, rows: 1},
		"it was rolled back":       {lose: answerLost, prepare: once(errors.New("the moment is bad")), states: []string{"none"}, calls: 2, runs: 2, rows: 1},
		"it failed for good":       {lose: answerLost, prepare: once(txidem.Fail("closed", "the order is closed")), states: []string{"failed"}, calls: 2, runs: 1, fails: true},
		"it has expired":           {lose: lostForLong, states: []string{"expired"}, calls: 1, runs: 1, rows: 1, err: intent.ErrExpired},
		"it submitted a job":       {lose: answerLost, tool: "request_report", states: []string{"succeeded"}, calls: 2, rows: 1},
		"the answer is lost, too":  {lose: answerLost, prepare: func(o *office) { o.wire.asked = []fault{lostAfter} }, states: []string{"succeeded"}, calls: 2, runs: 1, rows: 1},
		"the question is lost":     {lose: answerLost, prepare: func(o *office) { o.wire.asked = []fault{resetBefore} }, calls: 2, runs: 1, rows: 1},
		"it runs as long as asked": {lose: lostAtWork, prepare: openAfterTwo, states: []string{"running", "running", "succeeded"}, calls: 2, runs: 1, rows: 1},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			if c.prepare != nil {
				c.prepare(o)
			}
			r, err := o.connect(t, c.lose, 0).CallTool(inStep(t), &mcp.CallToolParams{Name: cmp.Or(c.tool, "issue_refund"), Arguments: refund{"A-1", 5}})
			if !errors.Is(err, c.err) || err == nil && r.IsError != c.fails {
				t.Errorf("%v, %+v", err, r)
			}
			states := o.told()
			if !slices.Equal(slices.Compact(slices.Clone(states)), slices.Compact(slices.Clone(c.states))) || len(states) < len(c.states) {
				t.Errorf("get_status answered %q, want %q", states, c.states)
			}
			rows := o.number(t, `select (select count(*) from refund) + (select count(*) from txonce.job)`)
			if o.wire.attempts() != c.calls || o.runs.Load() != c.runs || rows != c.rows {
				t.Errorf("%d calls, %d runs, %d rows; want %d, %d and %d", o.wire.attempts(), o.runs.Load(), rows, c.calls, c.runs, c.rows)
			}
		})
	}
}

// openAfterTwo has the handler run until it has been asked for twice.
func openAfterTwo(o *office) {
	o.before, o.onAsk = o.pass, func(times int) {
		if times == 2 {
			o.open()
		}
	}
}

// TestMiddleware_M10_S02_NothingIsDoneTwiceAmongFaults has many steps at once on a network that does to calls and to questions whatever it can.
func TestMiddleware_M10_S02_NothingIsDoneTwiceAmongFaults(t *testing.T) {
	t.Parallel()
	const steps = 40
	o := newOffice(t)
	for range steps {
		o.wire.plan = append(o.wire.plan, faults[rand.IntN(len(faults))])
		o.wire.asked = append(o.wire.asked, fine, faults[rand.IntN(len(faults))])
	}
	session := o.connect(t, nil, 2*time.Second)
	var all sync.WaitGroup
	paid := make([]any, steps)
	for i := range steps {
		all.Go(func() {
			r, err := call(intent.WithStep(t.Context(), "run-7", intent.Nth("refund", i)), session, int64(i))
			if err != nil || r.IsError || said(r)["cents"] != float64(i) {
				t.Errorf("%d: %v, %+v", i, err, r)
				return
			}
			paid[i] = said(r)["refund"]
		})
	}
	all.Wait()
	refunds := make(map[any]bool)
	for _, id := range paid {
		refunds[id] = true
	}
	if rows, runs := o.number(t, `select count(*) from refund`), o.runs.Load(); rows != steps || runs != steps || len(refunds) != steps {
		t.Errorf("%d rows in %d runs, %d answers; want %d of each", rows, runs, len(refunds), steps)
	}
	if states := o.told(); !slices.Contains(states, "succeeded") || !slices.Contains(states, "none") {
		t.Errorf("get_status answered %q", states)
	}
}
