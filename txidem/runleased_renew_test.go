package txidem

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
)

// dials is the network of a test that is interested in which connections are made, and what becomes of them.
type dials struct {
	wire faultconn.Dialer

	mu    sync.Mutex
	made  []*faultconn.Conn
	stall int // how many more connections are silent from their beginning on

	delay atomic.Int64 // how long it takes to make one, in nanoseconds
}

func (d *dials) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-time.After(time.Duration(d.delay.Load())):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := d.wire.DialFunc(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, faultconn.Of(conn))
	if d.stall > 0 {
		d.stall--
		faultconn.Of(conn).Stall()
	}
	return conn, nil
}

// count is how many connections have been made.
func (d *dials) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.made)
}

// since are the connections that were made behind the first n.
func (d *dials) since(n int) []*faultconn.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*faultconn.Conn(nil), d.made[n:]...)
}

// silence lets the next n connections be silent.
func (d *dials) silence(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stall = n
}

// dialled is setup with such a network, and with a pool of another one for what the test itself wants to know.
func dialled(t *testing.T, policy *Policy, maxConns int32) (*fixture, *dials, *pgxpool.Pool) {
	t.Helper()
	d := &dials{}
	f := setup(t, policy, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = d.dial
		cfg.MaxConns = maxConns
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	})
	t.Cleanup(d.wire.CutStalled)
	return f, d, dbtest.PoolAt(t, f.pool.Config().ConnString(), nil)
}

// says asks a yes-or-no question over the pool.
func says(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (yes bool) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&yes); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
	return yes
}

// leaseBeyond reports whether all leases reach beyond their beginning by more than d.
func leaseBeyond(t *testing.T, pool *pgxpool.Pool, d time.Duration) bool {
	t.Helper()
	return says(t, pool, `select bool_and(lease_until > started_at + make_interval(secs => $1)) from txonce.call where state = 'running'`, d.Seconds())
}

// TestRunLeased_R14_R04_BusyPoolCostsNoLease has the test hold the only connection of the pool: the lease is renewed and the
// answer recorded all the same.
func TestRunLeased_R14_R04_BusyPoolCostsNoLease(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	f, _, other := dialled(t, &Policy{Lease: lease, Renew: lease / 20, CommitTimeout: time.Second}, 1)
	events := &lastEvents{}
	f.store.observer = events
	held, inside := f.holdLeased(t.Context(), request("k"), nil)
	notDone, _ := f.holdLeased(t.Context(), request("not done"), nil)
	open, _ := f.holdLeased(t.Context(), request("open"), nil)
	busy, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lease lasts for longer than its length", func() bool { return leaseBeyond(t, other, 9*lease/4) })
	if inside.Err() != nil {
		t.Errorf("the handler's context has ended: %v", context.Cause(inside))
	}
	notDone.goOn <- func(context.Context) (string, error) { return "", NotDone(errCutOff) }
	open.goOn <- func(context.Context) (string, error) { return "", errCutOff }
	if end := held.end(leaves("k", doAnswers("done"))); end.err != nil || end.Value != "done" || events.last(end.ID).Resolved {
		t.Errorf("got %+v, event %+v: no answer was lost", end, events.last(end.ID))
	}
	if end := notDone.wait(); !errors.Is(end.err, errCutOff) {
		t.Errorf("not done: %v", end.err)
	}
	if end := open.wait(); !errors.Is(end.err, errCutOff) {
		t.Errorf("open: %v", end.err)
	}
	busy.Release()
	if n := f.effects("k"); n != 1 {
		t.Errorf("%d statements were committed", n)
	}
	if row := f.callRow("not done"); row != "" {
		t.Errorf("what was not done left %s", row)
	}
	f.staysBlocked(request("open"))
	f.idle()
}

// TestRunLeased_R14_OneConnectionRenewsAll has leases of two lengths.
func TestRunLeased_R14_OneConnectionRenewsAll(t *testing.T) {
	t.Parallel()
	const n, short = 50, 6 * time.Second
	f, d, other := dialled(t, &Policy{Lease: short, Renew: short / 20}, 4)
	calls := make([]*heldLease, n)
	for i := range calls {
		req := request(name("short", i))
		if i%2 == 0 {
			req = request(name("long", i))
			req.Policy = &Policy{Lease: 3 * short, Renew: short / 10}
		}
		calls[i], _ = f.holdLeased(t.Context(), req, nil)
	}
	eventually(t, "the renewing connection is there", func() bool { return leaseBeyond(t, other, short+short/20) })
	before := d.count()
	eventually(t, "all have been renewed for a length", func() bool {
		return says(t, other, `select bool_and(lease_until > started_at + case when key like 'x:long%' then 3.5 else 2 end * $1::interval) from txonce.call`, short)
	})
	if !says(t, other, `select bool_and(lease_until <= clock_timestamp() + case when key like 'x:long%' then 3 else 1 end * $1::interval) from txonce.call`, short) {
		t.Error("a lease is longer than its policy says")
	}
	if made := d.count() - before; made != 0 || before > 5 {
		t.Errorf("%d connections for a pool of 4 and the renewals, %d more later", before, made)
	}
	for i, held := range calls {
		if end := held.end(doAnswers("done")); end.err != nil {
			t.Errorf("call %d: %v", i, end.err)
		}
	}
	f.renewsNothing()
}

// renewsNothing checks that the store renews no lease and has no connection for it.
func (f *fixture) renewsNothing() {
	f.t.Helper()
	eventually(f.t, "no lease is renewed", func() bool {
		f.store.leases.mu.Lock()
		defer f.store.leases.mu.Unlock()
		return len(f.store.leases.live) == 0 && f.store.renewals.Busy() == 0
	})
	f.idle()
}

// TestRunLeased_R14_ShortCallsCostNoConnection: goleak sees at the end that no goroutine is left either.
func TestRunLeased_R14_ShortCallsCostNoConnection(t *testing.T) {
	t.Parallel()
	f, d, _ := dialled(t, nil, 1)
	for i := range 20 {
		if _, err := RunLeased(t.Context(), f.store, request(name("k", i)), doAnswers("done"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.count(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	f.renewsNothing()
}

// TestRunLeased_R14_R20_ConnectionSlowerThanRenewals: what takes longer to connect than the time between two renewals connects all
// the same.
func TestRunLeased_R14_R20_ConnectionSlowerThanRenewals(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	f, d, other := dialled(t, &Policy{Lease: lease, Renew: 20 * time.Millisecond}, 2)
	d.delay.Store(int64(300 * time.Millisecond))
	held, inside := f.holdLeased(t.Context(), request("k"), nil)
	eventually(t, "it has been renewed", func() bool { return leaseBeyond(t, other, lease+lease/20) || inside.Err() != nil })
	if end := held.end(doAnswers("done")); end.err != nil || context.Cause(inside) != context.Canceled {
		t.Errorf("got %+v; the handler heard %v", end, context.Cause(inside))
	}
	f.renewsNothing()
}

// TestRunLeased_R14_R20_LongLeaseDoesNotCostAShortOne: both are renewed over one connection, which falls silent when only the long one
// is due.
func TestRunLeased_R14_R20_LongLeaseDoesNotCostAShortOne(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	f, d, other := dialled(t, &Policy{Lease: lease}, 2)
	rare := request("rarely renewed")
	rare.Policy = &Policy{Lease: 10 * time.Minute, Renew: 200 * time.Millisecond}
	long, _ := f.holdLeased(t.Context(), rare, nil)
	short, inside := f.holdLeased(t.Context(), request("short"), nil)
	beyond := func(d time.Duration) bool {
		return inside.Err() != nil || says(t, other, `select lease_until > started_at + make_interval(secs => $1) from txonce.call where key = 'x:short'`, d.Seconds())
	}
	eventually(t, "it has been renewed", func() bool { return beyond(lease + lease/20) })
	for _, conn := range d.since(1) { // the first one is the pool's
		conn.Stall()
	}
	eventually(t, "it is renewed again", func() bool { return beyond(lease + lease/2) })
	for _, held := range []*heldLease{short, long} {
		if end := held.end(doAnswers("done")); end.err != nil {
			t.Error(end.err)
		}
	}
	if cause := context.Cause(inside); cause != context.Canceled {
		t.Errorf("the handler heard %v", cause)
	}
	f.renewsNothing()
}

// TestRunLeased_R14_R20_RenewalOutlivesItsConnection breaks what renews, in each way that leaves time for another try. All
// of them wait at the same time.
func TestRunLeased_R14_R20_RenewalOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	var checks []func()
	for label, c := range map[string]struct {
		atOnce int // connections that are silent from their beginning on
		later  func(*faultconn.Conn)
	}{
		"cut":            {later: (*faultconn.Conn).Cut},
		"stalled":        {later: (*faultconn.Conn).Stall},
		"silent at once": {atOnce: 1},
	} {
		f, d, other := dialled(t, &Policy{Lease: lease, Renew: lease / 12}, 2)
		held, inside := f.holdLeased(t.Context(), request("k"), nil)
		n := d.count()
		d.silence(c.atOnce)
		if c.later != nil {
			eventually(t, "it has been renewed", func() bool { return leaseBeyond(t, other, lease+lease/20) })
			for _, conn := range d.since(n) {
				c.later(conn)
			}
		}
		checks = append(checks, func() {
			eventually(t, label+": it is renewed again", func() bool { return leaseBeyond(t, other, lease+lease/2) })
			if end := held.end(doAnswers("done")); end.err != nil || inside.Err() == nil {
				t.Errorf("%s: got %+v; the context of a handler that has returned: %v", label, end, inside.Err())
			}
			if n := len(d.since(n)); n < 2 { // pgx asks over one more to cancel what a silent one was doing
				t.Errorf("%s: %d connections for the renewals, want another one than the first", label, n)
			}
			f.renewsNothing()
		})
	}
	for _, check := range checks {
		check()
	}
}
