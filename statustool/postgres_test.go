package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
	"github.com/txonce/txonce/txidem/mcpidem/intent"
)

// office is a server on Postgres with a tool that writes and one that submits a job; both count their effects.
type office struct {
	t      *testing.T
	pool   *pgxpool.Pool
	runner *jobs.Runner
	*shop
	step chan struct{} // each lets the job go on
}

func newOffice(t *testing.T, maxConns int32) *office {
	t.Helper()
	o := &office{t: t, pool: dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = maxConns }), step: make(chan struct{}, 100)}
	if _, err := o.pool.Exec(t.Context(), `create table effect (label text not null)`); err != nil {
		t.Fatal(err)
	}
	report := jobs.Define("build_report", func(ctx context.Context, job *jobs.Job[order]) (jobs.Commit[pages], error) {
		job.Progress(0.5, "half")
		select {
		case <-o.step:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return func(ctx context.Context, tx pgx.Tx) (pages, error) {
			return pages{12}, o.write(ctx, tx, job.Args.Order)
		}, nil
	}, nil)
	var err error
	o.runner, err = jobs.New(o.pool, &jobs.Config{Lease: 2 * time.Second, Sweep: 200 * time.Millisecond, Configure: func(c *river.Config) {
		c.TestOnly, c.PollOnly = true, dbtest.Pooled()
		c.FetchCooldown, c.FetchPollInterval = 20*time.Millisecond, 200*time.Millisecond
	}}, report)
	if err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(o.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.shop = &shop{t: t, store: store, server: mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)}
	if o.idem, err = mcpidem.New(o.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)}); err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(o.idem, &mcp.Tool{Name: "issue_refund"}, func(ctx context.Context, tx pgx.Tx, in order) (receipt, error) {
		return receipt{Refund: "R-" + in.Order}, o.write(ctx, tx, in.Order)
	})
	mcpidem.AddTool(o.idem, &mcp.Tool{Name: "request_report"}, func(ctx context.Context, tx pgx.Tx, in order) (jobs.Handle, error) {
		return report.SubmitTx(ctx, tx, o.runner, in, nil)
	})
	return o
}

func (o *office) start() {
	o.t.Helper()
	if err := o.runner.Start(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := o.runner.Stop(ctx); err != nil {
			o.t.Error(err)
		}
	})
}

func (o *office) write(ctx context.Context, tx pgx.Tx, label string) error {
	_, err := tx.Exec(ctx, `insert into effect values ($1::text)`, label)
	return err
}

func (o *office) effects(label string) (n int) {
	o.t.Helper()
	if err := o.pool.QueryRow(o.t.Context(), `select count(*)::int from effect where label = $1::text`, label).Scan(&n); err != nil {
		o.t.Fatal(err)
	}
	return n
}

// obey does what the answers say, and knows nothing else, until there is nothing more to do.
func obey(t *testing.T, session *mcp.ClientSession, r *mcp.CallToolResult) Report {
	t.Helper()
	order := regexp.MustCompile(`call (\w+) with (\{.*?\})`)
	for range 100 {
		report := reportIn(t, r)
		next := order.FindStringSubmatch(report.Next)
		if next == nil {
			return report
		}
		r = do(t, session, next[1], json.RawMessage(next[2]))
	}
	t.Fatal("the answers lead in a circle")
	return Report{}
}

// TestGet_S02_S04_AgentThatLosesEachAnswer gets to the results by asking, and never causes a second effect.
func TestGet_S02_S04_AgentThatLosesEachAnswer(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 10)
	o.add(&Config{Canceller: o.runner}, o.store, o.runner)
	o.start()
	session := o.connect(nil)
	for i := range 3 {
		label := fmt.Sprint("order ", i)
		key := args{"idempotency_key": label}
		do(t, session, "issue_refund", with(key, args{"order": label}))   // lost
		do(t, session, "request_report", with(key, args{"order": label})) // lost
		ask := func(tool string) *mcp.CallToolResult {
			return do(t, session, "get_status", with(key, args{"tool": tool}))
		}
		if got := obey(t, session, ask("issue_refund")); got.State != toolcall.StateSucceeded || string(got.Result) != `{"refund":"R-`+label+`"}` {
			t.Errorf("%+v", got)
		}
		o.step <- struct{}{}
		if got := obey(t, session, ask("request_report")); got.State != toolcall.StateSucceeded || string(got.Result) != `{"pages": 12}` && string(got.Result) != `{"pages":12}` {
			t.Errorf("%+v", got)
		}
		if n := o.effects(label); n != 2 {
			t.Errorf("%s has %d effects, want one of the refund and one of the report", label, n)
		}
	}
	do(t, session, "request_report", args{"order": "unwanted", "idempotency_key": "unwanted"})
	submitted := reportIn(t, do(t, session, "get_status", args{"tool": "request_report", "idempotency_key": "unwanted"}))
	var h handle
	if err := json.Unmarshal(submitted.Result, &h); err != nil {
		t.Fatal(err)
	}
	if got := obey(t, session, do(t, session, "cancel_job", args{"id": h.JobID})); got.State != toolcall.StateCancelled || o.effects("unwanted") != 0 {
		t.Errorf("%+v, %d effects", got, o.effects("unwanted"))
	}
}

// TestGet_S02_IntentAsksThisTool: the caller's side of package intent gets what it expects of a status tool.
func TestGet_S02_IntentAsksThisTool(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 10)
	o.add(nil, o.store, o.runner)
	var lost, asked atomic.Int32
	o.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && params.Name == "issue_refund" && lost.Add(1) == 1 {
				return nil, errors.New("the answer is lost")
			} else if ok && params.Name == "get_status" {
				asked.Add(1)
			}
			return result, err
		}
	})
	here, there := mcp.NewInMemoryTransports()
	serving, err := o.server.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	client.AddSendingMiddleware(intent.Middleware(&intent.Config{Tools: func(name string) bool { return name == "issue_refund" }, StatusTool: "get_status", MinBackoff: time.Millisecond}))
	session, err := client.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.CallTool(intent.WithStep(t.Context(), "run", "step"), &mcp.CallToolParams{Name: "issue_refund", Arguments: args{"order": "A"}})
	if err != nil || r.IsError || o.effects("A") != 1 || asked.Load() != 1 {
		t.Errorf("%v, %+v, %d effects, asked %d times", err, r, o.effects("A"), asked.Load())
	}
	if err := errors.Join(session.Close(), serving.Wait()); err != nil {
		t.Error(err)
	}
}

// TestFollow_S03_ThousandWaitersOnAPoolOfTen hear of the end of one job and of calls, while the server goes on serving.
func TestFollow_S03_ThousandWaitersOnAPoolOfTen(t *testing.T) {
	t.Parallel()
	o := newOffice(t, 10)
	o.add(&Config{MaxWait: 2 * time.Minute}, o.store, o.runner)
	o.start()
	session := o.connect(nil)
	r := do(t, session, "request_report", args{"order": "A", "idempotency_key": "k"})
	id := r.StructuredContent.(map[string]any)["job_id"].(string)
	const n = 1000
	heard := make(chan struct{}, 1)
	opts := &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}}
	crowd := o.connect(opts)
	var all sync.WaitGroup
	var right atomic.Int32
	for range n {
		all.Go(func() {
			params := &mcp.CallToolParams{Name: "get_status", Arguments: args{"id": id, "wait_seconds": 120}}
			params.SetProgressToken("token")
			r, err := crowd.CallTool(t.Context(), params)
			if err == nil && reportIn(t, r).State == toolcall.StateSucceeded {
				right.Add(1)
			}
		})
	}
	<-heard // they wait
	do(t, session, "issue_refund", args{"order": "B", "idempotency_key": "k"})
	o.step <- struct{}{}
	all.Wait()
	if right.Load() != n || o.effects("A") != 1 || o.effects("B") != 1 {
		t.Errorf("%d of %d heard of the end; %d and %d effects", right.Load(), n, o.effects("A"), o.effects("B"))
	}
	if got := o.pool.Stat().MaxConns(); got != 10 {
		t.Errorf("the pool has %d connections", got)
	}
}
