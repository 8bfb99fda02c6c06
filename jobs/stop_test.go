package jobs

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/pgturns"
	"github.com/txonce/txonce/toolcall"
)

// over is a context that has ended.
func over(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestStop_J09_StartAndStopInAnyOrder(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	f := setup(t, nil, d)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	must("Stop before Start", f.Stop(t.Context()))
	id := submit(f, d, in{Label: "a"}, nil)
	for range 3 {
		must("Start", f.Start(t.Context()))
		if err := f.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "jobs: the runner is started already") {
			t.Errorf("Start twice: %v", err)
		}
		f.await(id, toolcall.StateSucceeded)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { must("Stop", f.Stop(t.Context())) })
		}
		all.Wait()
		must("Stop twice", f.Stop(over(t)))
		id = submit(f, d, in{Label: "a"}, nil) // a stopped runner still submits, tells and cancels
		if s := f.status(id); s.State != toolcall.StateQueued {
			t.Errorf("behind Stop: %+v", s)
		}
	}
	f.mustCancel(id, toolcall.StateCancelled)
	f.effectsAre(map[string]int{"a": 3})
}

// TestStop_J09_StartIsBoundedByItsContext: a database that does not answer is not waited for.
func TestStop_J09_StartIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	dialing := make(chan struct{}, 100)
	d := plainly("report", nil)
	f := setupOn(t, func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if silent.Load() {
				dialing <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, addr)
		}
	}, nil, d)
	id := submit(f, d, in{Label: "a"}, nil)
	silent.Store(true)
	f.pool.Reset()
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the deploy was given up")
	go func() { <-dialing; cancel(left) }()
	if err := f.Start(ctx); !errors.Is(err, left) {
		t.Errorf("Start: %v, want the reason for which it was given up", err)
	}
	silent.Store(false)
	f.start(f.Runner)
	f.await(id, toolcall.StateSucceeded)
}

// TestStop_J09_WaitsForWhatRuns and takes nothing new.
func TestStop_J09_WaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	s := make(stage)
	d := s.define("report", nil)
	cfg := quick()
	cfg.Queues = map[string]int{defaultQueue: 1}
	f := setup(t, cfg, d)
	f.start(f.Runner)
	first := submit(f, d, in{Label: "first"}, nil)
	f.await(first, toolcall.StateRunning)
	second := submit(f, d, in{Label: "second"}, nil)
	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(t.Context()) }()
	f.eventually("it is stopping", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.Runner.stopped != nil
	})
	s.say(0.5, "still here") // leases are renewed and reports are written
	f.reported(first, 0.5, "still here")
	s.end(nil)
	if err := receive(f, "Stop returns", stopped); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if st := f.status(first); st.State != toolcall.StateSucceeded {
		t.Errorf("the one that ran: %+v", st)
	}
	if st := f.status(second); st.State != toolcall.StateQueued || st.Job.Attempts != 0 {
		t.Errorf("the one that waited: %+v", st)
	}
	f.effectsAre(map[string]int{"first": 1})
}

// TestStop_J09_HandsBack: when its context ends, attempts hear so, do not count, and run elsewhere at once.
func TestStop_J09_HandsBack(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	var here atomic.Bool
	here.Store(true)
	d := Define("report", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		if here.Load() {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		return commits(job.Args.Label), nil
	}, &Options{MaxAttempts: 1})
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	f.await(id, toolcall.StateRunning)
	err := f.Stop(over(t))
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "jobs: attempts were cancelled and handed back") {
		t.Errorf("Stop: %v, want its context's error", err)
	}
	if cause := receive(f, "the end of its context", causes); !errors.Is(cause, ErrStopping) {
		t.Errorf("the attempt heard %v, want ErrStopping", cause)
	}
	if s := f.status(id); s.State != toolcall.StateQueued || s.Job.Attempts != 0 || s.Job.NextAttemptAt.After(get[time.Time](f, `select clock_timestamp()`)) {
		t.Errorf("%+v, %+v; want it to be due, with no attempt", s, s.Job)
	}
	here.Store(false)
	f.start(f.another(unhurried(), d)) // whose sweeper would take an hour
	if s := f.await(id, toolcall.StateSucceeded); s.Job.Attempts != 1 {
		t.Errorf("%+v", s.Job)
	}
	f.effectsAre(map[string]int{"x": 1})
}

// TestStop_J09_WhatIsDoneIsCommitted, though it was to stop: hours of work may be in it.
func TestStop_J09_WhatIsDoneIsCommitted(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	d := Define("report", waits(causes, commitsAnyhow), nil)
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	f.await(id, toolcall.StateRunning)
	if err := f.Stop(over(t)); err == nil {
		t.Error("Stop: no error")
	}
	if s := f.status(id); s.State != toolcall.StateSucceeded || s.Job.Attempts != 1 {
		t.Errorf("%+v", s)
	}
	f.effectsAre(map[string]int{"anyhow": 1})
}

// TestStop_J09_SharedClientHandsBackToo: the application stops it.
func TestStop_J09_SharedClientHandsBackToo(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	d := Define("report", waits(causes, givesUp), nil)
	f, client := sharing(t, d)
	f.start(f.Runner)
	id := submit(f, d, in{}, nil)
	f.await(id, toolcall.StateRunning)
	if err := f.Stop(t.Context()); err != nil { // the sweeper's
		t.Error(err)
	}
	if s := f.status(id); s.State != toolcall.StateRunning {
		t.Errorf("behind the runner's Stop: %+v; want it to run", s)
	}
	if err := client.StopAndCancel(t.Context()); err != nil {
		t.Error(err)
	}
	if cause := receive(f, "the end of its context", causes); !errors.Is(cause, ErrStopping) {
		t.Errorf("the attempt heard %v, want ErrStopping", cause)
	}
	if s := f.status(id); s.State != toolcall.StateQueued || s.Job.Attempts != 0 {
		t.Errorf("%+v, %+v", s, s.Job)
	}
}

// TestStop_J09_LeavesNoConnection, on either side.
func TestStop_J09_LeavesNoConnection(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "the pooler has connections of its own, and keeps them")
	const name = "txonce_stop_test"
	s := make(stage)
	d := s.define("report", nil)
	f := setupOn(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["application_name"] = name }, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	s.say(0.5, "half")
	f.reported(id, 0.5, "half") // so that there is a connection for leases
	s.end(nil)
	f.await(id, toolcall.StateSucceeded)
	if err := f.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.side.Busy() != 0 {
		t.Errorf("%d connections beside the pool are in use", f.side.Busy())
	}
	f.eventually("the pool has all of its own back, some of which it closes in the background", func() bool { return f.pool.Stat().AcquiredConns() == 0 })
	cfg := f.pool.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = "observer"
	f.pool.Close()
	observer, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Close)
	f.pool = observer
	f.eventually("the server has closed all of them", func() bool {
		return get[int](f, `select count(*)::int from pg_stat_activity where application_name = $1::text and datname = current_database()`, name) == 0
	})
}

// gate keeps back the answer to the first write that has a text in it.
type gate struct {
	text    string
	there   chan struct{} // closed when it has been written
	open    chan struct{} // closed by the test
	written sync.Once
}

func newGate(text string) *gate {
	return &gate{text: text, there: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) watch(cfg *pgxpool.Config) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &gatedConn{Conn: conn, gate: g}, err
	}
}

type gatedConn struct {
	net.Conn
	gate    *gate
	scanner pgturns.Scanner
	shut    atomic.Bool
}

func (c *gatedConn) Write(b []byte) (int, error) {
	if c.scanner.Turn(b).Has(c.gate.text) {
		c.gate.written.Do(func() { c.shut.Store(true); close(c.gate.there) })
	}
	return c.Conn.Write(b)
}

func (c *gatedConn) Read(b []byte) (int, error) {
	if c.shut.Load() {
		<-c.gate.open
		c.shut.Store(false)
	}
	return c.Conn.Read(b)
}

// TestStop_J09_InTheMiddleOfABeginning: an attempt that has begun on the server, and of which the worker does not know yet, is
// handed back like others.
func TestStop_J09_InTheMiddleOfABeginning(t *testing.T) {
	t.Parallel()
	g := newGate("attempts = attempts + 1")
	d := Define("report", func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, &Options{MaxAttempts: 1})
	stopping := make(chan struct{})
	cfg := unhurried()
	cfg.Configure = func(c *river.Config) {
		c.Plugins = append(c.Plugins, river.WorkerMiddlewareFunc(func(ctx context.Context, _ *rivertype.JobRow, work func(context.Context) error) error {
			defer context.AfterFunc(ctx, func() { close(stopping) })()
			return work(ctx)
		}))
	}
	f := setupOn(t, g.watch, cfg, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "x"}, nil)
	receive(f, "the attempt begins", g.there)
	f.await(id, toolcall.StateRunning)
	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(over(t)) }()
	receive(f, "it is stopping", stopping)
	close(g.open)
	if err := receive(f, "Stop returns", stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop: %v", err)
	}
	if s := f.status(id); s.State != toolcall.StateQueued || s.Job.Attempts != 0 {
		t.Errorf("%+v, %+v; want it to be handed back", s, s.Job)
	}
}

// TestStop_J09_WithLessPatience: a second Stop need not wait for as long as the first.
func TestStop_J09_WithLessPatience(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	d := Define("report", func(ctx context.Context, _ *Job[in]) (Commit[out], error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil)
	f := setup(t, unhurried(), d)
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := submit(f, d, in{}, nil)
	<-began
	patient := make(chan error, 1)
	go func() { patient <- f.Stop(context.Background()) }()
	f.eventually("the first is under way", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.Runner.stopped != nil
	})
	if err := f.Stop(over(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("the second: %v", err)
	}
	if err := <-patient; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Errorf("a third, when all is over: %v", err)
	}
	if s := f.status(id); s.State != toolcall.StateQueued || s.Job.Attempts != 0 {
		t.Errorf("%+v, %+v; want it to be handed back", s, s.Job)
	}
}

// TestStop_J06_WorkThatSaysSo: it is the runner that stops, and not the work; an error of the work's is one that counts.
func TestStop_J06_WorkThatSaysSo(t *testing.T) {
	t.Parallel()
	d := Define("report", func(context.Context, *Job[in]) (Commit[out], error) { return nil, ErrStopping }, &Options{MaxAttempts: 1})
	f := setup(t, unhurried(), d)
	f.start(f.Runner)
	if s := f.await(submit(f, d, in{}, nil), toolcall.StateFailed); s.Failure.Code != CodeAttemptsExhausted {
		t.Errorf("%+v", s.Failure)
	}
}
