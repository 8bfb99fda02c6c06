package jobs

import (
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// TestCompute_J03_HoldsNoConnectionAndNoTransaction: while the work computes, there is nothing but a connection for its lease.
func TestCompute_J03_HoldsNoConnectionAndNoTransaction(t *testing.T) {
	t.Parallel()
	const workers = 5
	s := make(stage)
	d := s.define("report", nil)
	f := setup(t, nil, d)
	f.start(f.Runner)
	var ids []toolcall.ID
	for range workers {
		ids = append(ids, submit(f, d, in{Label: "x"}, nil))
	}
	for _, id := range ids {
		f.await(id, toolcall.StateRunning)
	}
	began := get[time.Time](f, `select max(started_at) from txonce.job`)
	// Seconds, in which each lease is renewed three times.
	f.eventually("leases have been renewed", func() bool {
		return get[bool](f, `select min(lease_until) > $1::timestamptz + make_interval(secs => $2::double precision) from txonce.job`, began, (7 * f.cfg.Lease / 4).Seconds())
	})
	if n := get[int](f, `select count(*)::int from pg_stat_activity where datname = current_database() and xact_start <= $1::timestamptz`, began); n != 0 {
		t.Errorf("%d transactions are as old as the jobs", n)
	}
	// River listens on one, and this look may meet a sweep and a fetch.
	f.eventually("no attempt has a connection", func() bool { return f.pool.Stat().AcquiredConns() <= 1 })
	if n := f.side.Busy(); n != 1 {
		t.Errorf("%d connections beside the pool, want one for all attempts", n)
	}
	for range ids {
		s.end(nil)
	}
	for _, id := range ids {
		f.await(id, toolcall.StateSucceeded)
	}
	f.effectsAre(map[string]int{"x": workers})
}
