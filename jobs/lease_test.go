package jobs

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// wired is setup with a network that the test can break.
func wired(t *testing.T, cfg *Config, definitions ...Registered) (*fixture, *network) {
	t.Helper()
	net := &network{}
	f := setup(t, still(), definitions...)
	f.pool = dbtest.PoolAt(t, f.pool.Config().ConnString(), func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = net.dial
		cfg.MaxConns = 10
	})
	t.Cleanup(net.CutStalled) // in front of the pool's own closing, which waits for silent connections
	f.Runner = f.another(cfg, definitions...)
	return f, net
}

// network knows the connections that were made through it.
type network struct {
	faultconn.Dialer
	refused atomic.Int32 // connections, while it was down
	mu      sync.Mutex
	conns   []*faultconn.Conn
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := n.DialFunc(ctx, network, address)
	if err != nil {
		n.refused.Add(1)
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, faultconn.Of(conn))
	return conn, nil
}

// all are the connections that were made so far.
func (n *network) all() []*faultconn.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conns
}

// lease is when the lease of the only job ends.
func (f *fixture) lease() time.Time {
	return get[time.Time](f, `select coalesce(lease_until, 'epoch') from txonce.job`)
}

// TestLease_J04_OutlivesConnections: those that renew it are cut, or fall silent, and others take their place in time.
func TestLease_J04_OutlivesConnections(t *testing.T) {
	t.Parallel()
	for label, break1 := range map[string]func(*faultconn.Conn){"cut": (*faultconn.Conn).Cut, "silent": (*faultconn.Conn).Stall} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f, net := wired(t, &Config{Lease: 8 * time.Second, Sweep: time.Hour}, d)
			quiet := &fixture{t: t, pool: dbtest.PoolAt(t, f.pool.Config().ConnString(), nil)} // on a network of its own
			id := submit(f, d, in{Label: "a"}, nil)
			before := len(net.all())
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			renewed := func(since time.Time) time.Time {
				quiet.eventually("the lease is renewed", func() bool { return quiet.lease().After(since) })
				return quiet.lease()
			}
			first := renewed(quiet.lease())
			for _, conn := range net.all()[before:] {
				break1(conn)
			}
			second := renewed(first)
			if lapsed := second.Sub(first); lapsed >= 8*time.Second {
				t.Errorf("the lease had run out: it was renewed %v later", lapsed)
			}
			v.goesOn(f)
			f.hears("the doorbell", bell, isNil)
			quiet.effectsBy(map[string][]string{"a": {"1"}})
		})
	}
}

// TestLease_J04_TellsTheAttempt that it has lost its job, or is to stop.
func TestLease_J04_TellsTheAttempt(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		sql   string
		cause error
		state toolcall.State
	}{
		"taken over":     {`attempt = gen_random_uuid()`, ErrLeaseLost, toolcall.StateRunning},
		"ended":          {`state = 'failed', finished_at = now(), answer = '{}'`, ErrLeaseLost, toolcall.StateFailed},
		"to be stopped":  {`cancel_at = now()`, ErrCancelled, toolcall.StateCancelled},
		"lapsed, and on": {`lease_until = now() - interval '1 hour'`, nil, toolcall.StateSucceeded},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f := setup(t, &Config{Lease: 2 * time.Second, Sweep: time.Hour}, d)
			id := submit(f, d, in{Label: "a"}, nil)
			bell := ring(f, f.Runner, d, id)
			v := begun(f, visits)
			f.exec(`update txonce.job set ` + c.sql)
			if c.cause == nil {
				f.eventually("the lease is renewed", func() bool { return get[bool](f, `select lease_until > clock_timestamp() from txonce.job`) })
				v.goesOn(f)
			} else {
				receive(f, "the end of the context", v.ctx.Done())
				if cause := context.Cause(v.ctx); !errors.Is(cause, c.cause) {
					t.Errorf("its cause is %v, want %v", cause, c.cause)
				}
				v.computes(nil)
			}
			receive(f, "the doorbell", bell)
			if s := f.status(id); s.State != c.state {
				t.Errorf("the job is %s, want %s", s.State, c.state)
			}
		})
	}
}

// TestLease_J06_AttemptThatDoesNotReturnLosesItsJob: its context has ended, and it goes on. Somebody else has the job then, or it
// is over; what the attempt does later is of no account.
func TestLease_J06_AttemptThatDoesNotReturnLosesItsJob(t *testing.T) {
	t.Parallel()
	for label, commits := range map[string]bool{"computes": false, "commits": true} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: 2, Timeout: 2 * time.Second, CommitTimeout: 2 * time.Second})
			f := setup(t, &Config{Lease: time.Second, Sweep: 100 * time.Millisecond}, d)
			f.start(f.Runner)
			id := submit(f, d, in{Label: "a"}, nil)
			stuck := begun(f, visits)
			if commits {
				stuck.enters(f)
			}
			second := begun(f, visits)
			second.goesOn(f)
			f.await(id, toolcall.StateSucceeded)
			if commits {
				stuck.commits(nil)
			} else {
				stuck.computes(nil)
			}
			f.ended(id, toolcall.StateSucceeded, 2, "")
			f.effectsBy(map[string][]string{"a": {"2"}})
		})
	}
}

// TestLease_J07_CancelledAttemptThatDoesNotReturnIsOver: nobody waits for it for ever.
func TestLease_J07_CancelledAttemptThatDoesNotReturnIsOver(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, &Config{Lease: time.Second, Sweep: 100 * time.Millisecond}, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	stuck := begun(f, visits)
	if _, err := f.Cancel(t.Context(), scope, id); err != nil {
		t.Fatal(err)
	}
	f.await(id, toolcall.StateCancelled)
	stuck.computes(nil)
	nobody(f, visits)
	f.effectsBy(map[string][]string{})
}

// TestLease_J04_CommitOfOneDoesNotDelayTheRenewalOfAnother: the row of the one is locked for as long as that takes.
func TestLease_J04_CommitOfOneDoesNotDelayTheRenewalOfAnother(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, &Config{Lease: 2 * time.Second, Sweep: time.Hour}, d)
	commits, computes := submit(f, d, in{Label: "commits"}, nil), submit(f, d, in{Label: "computes"}, nil)
	first, second := ring(f, f.Runner, d, commits), (<-chan error)(nil)
	committing := begun(f, visits)
	committing.enters(f)
	second = ring(f, f.Runner, d, computes)
	computing := begun(f, visits)
	lease := func() time.Time {
		return get[time.Time](f, `select lease_until from txonce.job where id = $1`, uuidOf(computes))
	}
	for range 3 {
		last := lease()
		f.eventually("the lease is renewed", func() bool { return lease().After(last) })
	}
	committing.commits(nil)
	f.hears("the first doorbell", first, isNil)
	computing.goesOn(f)
	f.hears("the second doorbell", second, isNil)
	f.effectsBy(map[string][]string{"commits": {"1"}, "computes": {"1"}})
}

// TestLease_J04_IsNotRenewedByWhoLostIt: else a job whose new worker died would be nobody's for as long as the old one lives.
func TestLease_J04_IsNotRenewedByWhoLostIt(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, &Config{Lease: 2 * time.Second, Sweep: time.Hour}, d)
	lost, other := submit(f, d, in{Label: "lost"}, nil), submit(f, d, in{Label: "other"}, nil)
	ring(f, f.Runner, d, lost)
	a := begun(f, visits)
	f.eventually("the job is B's", func() bool { // A may renew its lease in between
		f.lapse(lost)
		return !isSnooze(f.tryBegin(d, lost))
	})
	receive(f, "the end of A's context", a.ctx.Done())
	ring(f, f.Runner, d, other)
	begun(f, visits)
	lease := func(id toolcall.ID) time.Time {
		return get[time.Time](f, `select lease_until from txonce.job where id = $1`, uuidOf(id))
	}
	before := lease(lost)
	for range 2 {
		last := lease(other)
		f.eventually("the other lease is renewed", func() bool { return lease(other).After(last) })
	}
	if got := lease(lost); !got.Equal(before) {
		t.Errorf("the lease was renewed: it ends at %v, and did at %v", got, before)
	}
}

// tryBegin begins an attempt in another process, which dies.
func (f *fixture) tryBegin(d *Definition[in, out], id toolcall.ID) error {
	f.t.Helper()
	_, err := f.another(still(), d).begin(f.t.Context(), d.def, id)
	return err
}
