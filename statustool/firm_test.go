package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// firm is a server on Postgres whose tools do what an order's name begins with. It may be a process of its own.
type firm struct {
	pool   *pgxpool.Pool
	store  *txidem.Store
	runner *jobs.Runner
	report *jobs.Definition[order, pages]
	server *mcp.Server
	idem   *mcpidem.Adapter
	goOn   chan struct{} // lets go one of those who wait
}

// What an order's name begins with.
const (
	orderHold   = "hold"   // waits, with its effect in its transaction or its progress reported
	orderClosed = "closed" // fails for good
	orderAgain  = "again"  // fails for now
	orderLater  = "later"  // is due in an hour
	orderCut    = "cut"    // breaks off in the middle of an effect elsewhere
)

const sqlEffects = `create table if not exists effect (label text not null)`

// openFirm puts the tools on a server. cfg is that of the status tool; its canceller is the runner.
func openFirm(pool *pgxpool.Pool, cfg Config) (*firm, error) {
	f := &firm{pool: pool, goOn: make(chan struct{}), server: mcp.NewServer(&mcp.Implementation{Name: "firm", Version: "1"}, nil)}
	f.report = jobs.Define("build_report", f.build, &jobs.Options{Backoff: func(int) time.Duration { return time.Hour }})
	var err error
	if f.store, err = txidem.New(pool, nil); err != nil {
		return nil, err
	}
	if f.runner, err = jobs.New(pool, firmJobs(), f.report); err != nil {
		return nil, err
	}
	if f.idem, err = mcpidem.New(f.server, f.store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)}); err != nil {
		return nil, err
	}
	mcpidem.AddTool(f.idem, &mcp.Tool{Name: "issue_refund"}, f.refund)
	mcpidem.AddTool(f.idem, &mcp.Tool{Name: "request_report"}, func(ctx context.Context, tx pgx.Tx, in order) (jobs.Handle, error) {
		opts := &jobs.SubmitOpts{}
		if strings.HasPrefix(in.Order, orderLater) {
			opts.RunAt = time.Now().Add(time.Hour)
		}
		return f.report.SubmitTx(ctx, tx, f.runner, in, opts)
	})
	mcpidem.AddLeasedTool(f.idem, &mcp.Tool{Name: "charge_card"}, nil, f.charge, nil)
	cfg.Canceller = f.runner
	return f, Add(f.idem, &cfg, f.store, f.runner)
}

func firmJobs() *jobs.Config {
	return &jobs.Config{Lease: 4 * time.Second, Sweep: 200 * time.Millisecond, Configure: func(c *river.Config) {
		c.TestOnly = true
		c.FetchCooldown, c.FetchPollInterval = 20*time.Millisecond, 200*time.Millisecond
	}}
}

func (f *firm) refund(ctx context.Context, tx pgx.Tx, in order) (receipt, error) {
	if strings.HasPrefix(in.Order, orderClosed) {
		return receipt{}, txidem.Fail("closed", "the order is closed")
	}
	if err := effect(ctx, tx, in.Order); err != nil {
		return receipt{}, err
	}
	return receipt{Refund: "R-" + in.Order}, f.wait(ctx, in)
}

func (f *firm) charge(_ context.Context, in order) (receipt, error) {
	if strings.HasPrefix(in.Order, orderCut) {
		return receipt{}, errors.New("the provider does not answer")
	}
	return receipt{Refund: "C-" + in.Order}, nil
}

func (f *firm) build(ctx context.Context, job *jobs.Job[order]) (jobs.Commit[pages], error) {
	switch name := job.Args.Order; {
	case strings.HasPrefix(name, orderClosed):
		return nil, jobs.Fail("closed", "the order is closed")
	case strings.HasPrefix(name, orderAgain):
		return nil, errors.New("not now")
	case strings.HasPrefix(name, orderHold):
		job.Progress(0.5, "half")
	}
	if err := f.wait(ctx, job.Args); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx) (pages, error) { return pages{12}, effect(ctx, tx, job.Args.Order) }, nil
}

func (f *firm) wait(ctx context.Context, in order) error {
	if !strings.HasPrefix(in.Order, orderHold) {
		return nil
	}
	select {
	case <-f.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func effect(ctx context.Context, tx pgx.Tx, label string) error {
	_, err := tx.Exec(ctx, `insert into effect values ($1::text)`, label)
	return err
}

// newFirm opens one for a test, on the database of the pool, and starts its worker if asked.
func newFirm(t *testing.T, pool *pgxpool.Pool, cfg Config, works bool) *firm {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sqlEffects); err != nil {
		t.Fatal(err)
	}
	f, err := openFirm(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if works {
		(&office{t: t, runner: f.runner}).start()
	}
	return f
}

// shop is the firm's server with the ways to connect to it.
func (f *firm) shop(t *testing.T) *shop {
	return &shop{t: t, server: f.server, idem: f.idem, store: f.store}
}

func (f *firm) effects(t *testing.T, label string) int {
	t.Helper()
	return (&office{t: t, pool: f.pool}).effects(label)
}

// process is what a server of its own process is told.
type process struct {
	URL   string
	Works bool   // it works jobs
	Mute  bool   // what commits is not answered
	Fault uint64 // if not 0, it loses calls, loses answers and dies, as these dice fall
}

const processEnv = "TXONCE_STATUSTOOL_SERVER"

// command is that process, which serves on stdio.
func (p process) command(t *testing.T) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), processEnv+"="+string(raw), "GORACE=atexit_sleep_ms=0") // else it waits a second before it ends
	cmd.Stderr = os.Stderr
	return cmd
}

// connect opens a session with the process.
func (p process) connect(t *testing.T) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	cmd := p.command(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // it may have been killed
	return session, cmd
}

// serve is that process. It ends with its input.
func serve(raw string) int {
	err := func() error {
		var p process
		ctx := context.Background()
		if err := json.Unmarshal([]byte(raw), &p); err != nil {
			return err
		}
		pool, err := pgxpool.New(ctx, p.URL)
		if err != nil {
			return err
		}
		defer pool.Close()
		f, err := openFirm(pool, Config{})
		if err != nil {
			return err
		}
		if p.Mute {
			f.server.AddReceivingMiddleware(mute)
		}
		if p.Fault != 0 {
			f.server.AddReceivingMiddleware(faulty(rand.New(rand.NewPCG(p.Fault, 0))))
		}
		if p.Works {
			if err := f.runner.Start(ctx); err != nil {
				return err
			}
			defer func() { _ = f.runner.Stop(ctx) }()
		}
		return f.server.Run(ctx, &mcp.StdioTransport{})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "statustool: the server on stdio:", err)
		return 1
	}
	return 0
}

// mute never answers a call of a tool.
func mute(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if method == "tools/call" {
			select {} // until it is killed
		}
		return result, err
	}
}

var errLost = errors.New("nobody hears this")

// faulty is a network and a process as bad as they may be: in front of what a tool does and behind it. Its calls come one by one.
func faulty(dice *rand.Rand) mcp.Middleware {
	harm := func() error {
		switch n := dice.IntN(100); {
		case n < 4:
			os.Exit(1)
		case n < 20:
			return errLost
		}
		return nil
	}
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/call" {
				return next(ctx, method, req)
			}
			if err := harm(); err != nil {
				return nil, err
			}
			result, err := next(ctx, method, req)
			return result, errors.Join(err, harm())
		}
	}
}
