package jobs

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/toolcall"
)

// visit is an attempt that stands still in each half until the test lets it go on.
type visit struct {
	*Job[in]
	ctx context.Context // of the compute half

	computed  chan func() (Commit[out], error)
	inTx      chan struct{} // it is in its commit half, and has written its effect
	committed chan func(ctx context.Context, tx pgx.Tx) error
	over      <-chan struct{} // the test has ended
}

// stepwise is a definition whose attempts stand still. It does not heed its context: the worst that can be.
func stepwise(t *testing.T, name string, opts *Options) (*Definition[in, out], <-chan *visit) {
	visits := make(chan *visit, 100)
	return Define(name, func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		v := &visit{
			Job: job, ctx: ctx, computed: make(chan func() (Commit[out], error)), inTx: make(chan struct{}, 100),
			committed: make(chan func(context.Context, pgx.Tx) error), over: t.Context().Done(),
		}
		visits <- v
		select {
		case end := <-v.computed:
			return end()
		case <-v.over:
			return nil, errors.New("the test has ended")
		}
	}, opts), visits
}

// commit writes the effect of the attempt, and waits.
func (v *visit) commit(ctx context.Context, tx pgx.Tx) (out, error) {
	if err := writeBy(ctx, tx, v.Args.Label, v.Attempt); err != nil {
		return out{}, err
	}
	v.inTx <- struct{}{}
	select {
	case end := <-v.committed:
		return out{Label: v.Args.Label, By: strconv.Itoa(v.Attempt)}, end(ctx, tx)
	case <-v.over:
		return out{}, errors.New("the test has ended")
	}
}

// computes ends the compute half: with an error, or with the commit half.
func (v *visit) computes(err error) {
	v.computed <- func() (Commit[out], error) {
		if err != nil {
			return nil, err
		}
		return v.commit, nil
	}
}

// enters ends the compute half and waits until the commit half is under way.
func (v *visit) enters(f *fixture) {
	f.t.Helper()
	v.computes(nil)
	receive(f, "the commit half is under way", v.inTx)
}

// commits ends the commit half.
func (v *visit) commits(err error) {
	v.committed <- func(context.Context, pgx.Tx) error { return err }
}

// goesOn lets an attempt do all that it has to.
func (v *visit) goesOn(f *fixture) {
	f.t.Helper()
	v.enters(f)
	v.commits(nil)
}

// still is the configuration of tests in which nothing happens by itself.
func still() *Config { return &Config{Lease: time.Hour, Sweep: time.Hour} }

// patient is the configuration of tests with attempts that stand still: on a slow machine, too, nobody takes them for dead.
func patient() *Config { return &Config{Lease: 20 * time.Second, Sweep: 200 * time.Millisecond} }

// ring has a runner answer a doorbell of the job, as River does. What comes back is what becomes of the doorbell.
func ring(f *fixture, r *Runner, d *Definition[in, out], id toolcall.ID) <-chan error {
	return ringIn(f.t.Context(), r, d, id)
}

// ringIn is ring, in a context of River's: when that ends, the runner stops.
func ringIn(ctx context.Context, r *Runner, d *Definition[in, out], id toolcall.ID) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.answer(ctx, d.def, id) }()
	return done
}

// receive waits for what must come.
func receive[T any](f *fixture, what string, c <-chan T) T {
	f.t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		f.t.Fatalf("it never came: %s", what)
		panic("unreachable")
	}
}

// begun is the next attempt.
func begun(f *fixture, visits <-chan *visit) *visit {
	f.t.Helper()
	return receive(f, "an attempt begins", visits)
}

// nobody checks that no attempt has begun that the test does not know of.
func nobody(f *fixture, visits <-chan *visit) {
	f.t.Helper()
	select {
	case v := <-visits:
		f.t.Errorf("attempt %d has begun", v.Attempt)
	default:
	}
}

// isSnooze reports whether the doorbell is put off.
func isSnooze(err error) bool { return errors.As(err, new(*river.JobSnoozeError)) }

// isCancel reports whether the doorbell is taken down as cancelled.
func isCancel(err error) bool { return errors.As(err, new(*river.JobCancelError)) }

// lapse lets the lease of a job run out, and has the sweeper look at it.
func (f *fixture) lapse(id toolcall.ID) {
	f.t.Helper()
	f.exec(`update txonce.job set lease_until = clock_timestamp() - interval '1 hour', check_at = clock_timestamp() - interval '1 second' where id = $1`, uuidOf(id))
}

// due has the sweeper look at a job.
func (f *fixture) due(id toolcall.ID) {
	f.t.Helper()
	f.exec(`update txonce.job set check_at = clock_timestamp() - interval '1 second' where id = $1`, uuidOf(id))
}

// sweeps has a runner look after all jobs once.
func (f *fixture) sweeps(r *Runner) {
	f.t.Helper()
	if err := r.sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// writeBy makes an effect that says which attempt made it.
func writeBy(ctx context.Context, tx pgx.Tx, label string, attempt int) error {
	_, err := tx.Exec(ctx, `insert into effect (label, by) values ($1::text, $2::text)`, label, strconv.Itoa(attempt))
	return err
}

// effectsBy compares what was written, and by which attempts.
func (f *fixture) effectsBy(want map[string][]string) {
	f.t.Helper()
	got := make(map[string][]string)
	rows, _ := f.pool.Query(f.t.Context(), `select label, by from effect order by label, by`)
	var label, by string
	if _, err := pgx.ForEachRow(rows, []any{&label, &by}, func() error { got[label] = append(got[label], by); return nil }); err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("effects are not those wanted (-want +got):\n%s", diff)
	}
}

// ended compares how a job ended.
func (f *fixture) ended(id toolcall.ID, state toolcall.State, attempts int, code string) toolcall.Status {
	f.t.Helper()
	s := f.status(id)
	got := ""
	if s.Failure != nil {
		got = s.Failure.Code
	}
	if s.State != state || s.Job.Attempts != attempts || got != code {
		f.t.Errorf("the job is %s after %d attempts with the failure %q; want %s, %d, %q", s.State, s.Job.Attempts, got, state, attempts, code)
	}
	return s
}

// doorbells is how many rows River has for the job.
func (f *fixture) doorbells(id toolcall.ID) int {
	f.t.Helper()
	return get[int](f, `select count(*)::int from txonce_river.river_job where args->>'job' = $1`, id.String())
}

// blocked waits until a statement of the test's database waits for a row lock.
func (f *fixture) blocked() {
	f.t.Helper()
	f.eventually("somebody waits for a row", func() bool {
		return get[bool](f, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
	})
}

// withOneConn is a pool of one connection with these settings.
func withOneConn(settings map[string]string) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		for name, value := range settings {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
}
