package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/sideconn"
	"github.com/txonce/txonce/toolcall"
)

// Config is what a [Runner] can be told. The zero value of a field means its default.
type Config struct {
	// Schema is the Postgres schema that migrations.Up filled, at most 46 bytes. Defaults to "txonce".
	Schema string

	// RiverSchema is the schema of River's tables, as migrations.Up was told. It serves one Schema only. Of no use with
	// Workers. Defaults to Schema and "_river".
	RiverSchema string

	// Queues are the queues that this process works, with the number of jobs that run at a time in each. A process that only
	// submits jobs needs none: it is not started. Of no use with Workers. Defaults to {"default": 10}.
	Queues map[string]int

	// Workers, when set, has the runner share the River client of the application: New adds the kinds of job to this bundle,
	// the application makes its client with it and hands the client over with UseClient. The application's client must
	// work the queues of the definitions. It is the application's to start and stop.
	Workers *river.Workers

	// Configure may change what the runner's own River client is made with: plugins, poll-only mode behind a pooler,
	// retention of River's rows, which go an hour behind jobs that succeeded. Schema, Workers and Queues are set when it is
	// called and should stay. Defaults to no change.
	Configure func(*river.Config)

	// Lease is how long a killed worker keeps its job from others: the job runs again after at most Lease, one Sweep and the
	// second in which River fetches. A worker renews it each quarter of it. From 200 ms to 1 hour. Defaults to 8 seconds.
	Lease time.Duration

	// Sweep is the time between two looks for jobs whose worker or doorbell is gone. From 50 ms to 1 hour. Defaults to 2
	// seconds.
	Sweep time.Duration

	// MaxArgs is the size in bytes up to which encoded arguments are accepted. At most 16 MiB. Defaults to 1 MiB.
	MaxArgs int

	// Logger hears of attempts that fail and of jobs that are rung again, and of what River has to say. Defaults to one that
	// discards.
	Logger *slog.Logger
}

// Runner submits jobs, and works them once it is started. It may be used by any number of goroutines. It opens up to two
// connections beside the pool while it works jobs, to renew leases and to find out about lost commits; River
// keeps one more, on which it listens (none with PollOnly).
type Runner struct {
	pool    *pgxpool.Pool
	cfg     Config
	sql     queries
	log     *slog.Logger
	kinds   map[string]*definition
	names   []string // of the kinds
	side    *sideconn.Reserve
	beats   beats
	changes toolcall.Changes
	client  atomic.Pointer[river.Client[pgx.Tx]]
	own     bool // the client is the runner's

	mu      sync.Mutex
	running bool
	stop    context.CancelFunc
	done    chan struct{} // the sweeper has ended
	stopped chan struct{} // while Stop is under way; closed when it is done
}

// New makes a runner for the definitions on the pool. It does not connect and starts nothing. cfg may be nil. It returns an
// error that names the field for a bad config or the definition for a bad one.
func New(pool *pgxpool.Pool, cfg *Config, definitions ...Registered) (*Runner, error) {
	if pool == nil {
		return nil, errors.New("jobs: New needs a pool; make one with pgxpool.New")
	}
	if len(definitions) == 0 {
		return nil, errors.New("jobs: New needs a definition; make one with jobs.Define")
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Runner{pool: pool, cfg: c, sql: queriesFor(c.Schema), log: c.Logger, kinds: make(map[string]*definition), side: sideconn.New(pool, 2)}
	r.beats.runner = r
	r.side.Patience = func() time.Duration { return max(r.cfg.Lease/4, time.Second) } // a lease can be renewed later, but not much later
	for _, registered := range definitions {
		if err := r.register(registered); err != nil {
			return nil, err
		}
	}
	return r, r.connect()
}

var errNilDefinition = errors.New("jobs: New was given a nil definition; make it with jobs.Define before New is called")

func (r *Runner) register(registered Registered) error {
	if registered == nil {
		return errNilDefinition
	}
	def, err := registered.registered()
	if err != nil {
		return err
	}
	if r.kinds[def.kind] != nil {
		return fmt.Errorf("jobs: two definitions are called %q; give one of them another name", def.kind)
	}
	r.kinds[def.kind] = def
	r.names = append(r.names, def.kind)
	return nil
}

// UseClient hands over the River client that the application made with Config.Workers.
func (r *Runner) UseClient(client *river.Client[pgx.Tx]) error {
	switch {
	case client == nil:
		return errors.New("jobs: UseClient needs a client; make one with river.NewClient and Config.Workers")
	case r.own:
		return errors.New("jobs: the runner has a River client of its own; set Config.Workers to share the application's")
	}
	r.client.Store(client)
	return nil
}

// Start begins to work jobs, and to look after those of all processes. It returns once that is under way; ctx bounds the
// start only, Stop ends the work. When it fails, for the database cannot be reached, it may be called again. A runner that shares
// its client looks after jobs only: the application starts the client.
func (r *Runner) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	client := r.client.Load()
	switch {
	case r.running:
		return errors.New("jobs: the runner is started already")
	case client == nil:
		return ErrNoClient
	case r.own && len(r.cfg.Queues) == 0:
		return errors.New("jobs: the runner has no queues to work; name some in Config.Queues, or do not start a runner that only submits")
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	if r.own {
		inTime := context.AfterFunc(ctx, stop) // River starts for as long as its context lasts, and goes on in it
		err := client.Start(background)
		if !inTime() && err == nil {
			err = errors.Join(ctx.Err(), client.StopAndCancel(context.WithoutCancel(ctx)))
		}
		if err != nil {
			stop()
			return explain(ctx, err)
		}
	}
	r.warnIdle(ctx)
	r.running, r.stop, r.done = true, stop, make(chan struct{})
	go func() {
		defer close(r.done)
		r.sweepAlways(background)
	}()
	return nil
}

// warnIdle tells of kinds that this process submits, perhaps, and does not work: somebody has to.
func (r *Runner) warnIdle(ctx context.Context) {
	for _, name := range r.names {
		queue := r.kinds[name].opts.Queue
		if _, worked := r.cfg.Queues[queue]; r.own && !worked {
			r.log.WarnContext(ctx, "jobs: this runner does not work the queue of a kind that it knows; see that another one does, or name it in Config.Queues", "kind", name, "queue", queue)
		}
	}
}

var _ toolcall.Source = (*Runner)(nil)

// Stop takes no more jobs and waits for those that run. When ctx ends first, it cancels them (with [ErrStopping] as the
// cause) and hands them back: they run elsewhere at once, and the attempt does not count. It returns when no attempt runs any
// more, so work that does not heed its context is waited for, with ctx's error if they had to be cancelled. It may be called
// again meanwhile, with less patience. A stopped runner still submits, and can be started again.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.running {
		r.mu.Unlock()
		return nil
	}
	if r.stopped == nil {
		r.stopped = make(chan struct{})
		go r.windUp(r.stopped)
	}
	stopped := r.stopped
	r.mu.Unlock()
	if !r.own { // what runs is the application's client's
		<-stopped
		return nil
	}
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
	}
	err := errors.Join(ctx.Err(), r.client.Load().StopAndCancel(context.WithoutCancel(ctx)))
	<-stopped
	return fmt.Errorf("jobs: attempts were cancelled and handed back: %w", err)
}

// windUp ends what Start has begun, when nothing runs any more.
func (r *Runner) windUp(stopped chan struct{}) {
	if r.own {
		_ = r.client.Load().Stop(context.Background()) // it fails with its context only
	}
	r.stop()
	<-r.done
	if r.own { // else attempts may be running
		r.beats.over.Wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.stopped = false, nil
	close(stopped)
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,45}$`)

func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	out.Schema = first(out.Schema, "txonce")
	out.RiverSchema = first(out.RiverSchema, out.Schema+"_river")
	out.Lease = first(out.Lease, 8*time.Second)
	out.Sweep = first(out.Sweep, 2*time.Second)
	out.MaxArgs = first(out.MaxArgs, 1<<20)
	if out.Queues == nil {
		out.Queues = map[string]int{defaultQueue: 10}
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case !schemaName.MatchString(out.Schema):
		return out, fmt.Errorf("jobs: Config.Schema is %q; use lower-case letters, digits and underscores, at most 46 bytes", out.Schema)
	case !schemaName.MatchString(out.RiverSchema):
		return out, fmt.Errorf("jobs: Config.RiverSchema is %q; use lower-case letters, digits and underscores, at most 46 bytes", out.RiverSchema)
	case out.Lease < 200*time.Millisecond || out.Lease > time.Hour:
		return out, fmt.Errorf("jobs: Config.Lease is %v; it must be between 200ms and 1h", out.Lease)
	case out.Sweep < 50*time.Millisecond || out.Sweep > time.Hour:
		return out, fmt.Errorf("jobs: Config.Sweep is %v; it must be between 50ms and 1h", out.Sweep)
	case out.MaxArgs < 1 || out.MaxArgs > maxAnswer:
		return out, fmt.Errorf("jobs: Config.MaxArgs is %d; it must be between 1 and %d bytes", out.MaxArgs, maxAnswer)
	}
	return out, nil
}
