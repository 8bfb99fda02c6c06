package txidem

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// TestStatuses_S03_CostsTwoRoundTripsAtMost, and no connection: one that is given back inside a transaction is closed by the pool.
func TestStatuses_S03_CostsTwoRoundTripsAtMost(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	if _, err := Run(t.Context(), f.store, request("done"), writes("done")); err != nil {
		t.Fatal(err)
	}
	for label, c := range map[string]struct {
		keys []string
		want int
	}{
		"one that has ended":  {[]string{"done"}, 1},
		"one that is missing": {[]string{"never"}, 2},
		"both":                {[]string{"done", "never"}, 2},
	} {
		var reqs []Request
		for _, key := range c.keys {
			reqs = append(reqs, request(key))
		}
		before := f.pool.Stat().NewConnsCount()
		for i := range 4 { // the first ones describe the statements
			w.take()
			f.ask(reqs...)
			if n := w.take(); i == 3 && n != c.want {
				t.Errorf("%s: %d round trips, want %d", label, n, c.want)
			}
		}
		if n := f.pool.Stat().NewConnsCount() - before; n != 0 {
			t.Errorf("%s: %d new connections", label, n)
		}
	}
}

// TestStatuses_S03_NoLockIsLookedForByTheIDOfAJob: it is no call's.
func TestStatuses_S03_NoLockIsLookedForByTheIDOfAJob(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	ofJob, ofCall := idOf(request("never")), idOf(request("never"))
	ofJob[6] = ofJob[6]&0x0f | 0x70
	for id, want := range map[toolcall.ID]int{ofJob: 1, ofCall: 2} {
		for i := range 4 { // the first ones describe the statements
			w.take()
			got, err := f.store.Statuses(t.Context(), []toolcall.Ask{{Scope: request("").Scope, ID: id}})
			if n := w.take(); err != nil || got[0].State != toolcall.StateNone || i == 3 && n != want {
				t.Errorf("%s: %+v, %v, in %d round trips, want %d", id, got, err, n, want)
			}
		}
	}
}

// TestStatuses_S03_AreNotPlannedEachTime: that would take longer than to read one, and a good part of reading some.
func TestStatuses_S03_AreNotPlannedEachTime(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "it looks at its own connection")
	f := setup(t, nil, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	})
	some := []Request{request("a"), request("b")}
	f.exec(`insert into txonce.call (id, scope, tool, key, fingerprint, canon, fields, state, attempt, answer, started_at, finished_at, expires_at, tombstone)
		select gen_random_uuid(), 's', 't', 'k', '', 1, '', 'succeeded', gen_random_uuid(), '', now(), now(), now(), false from generate_series(1, 2000)`)
	f.exec(`analyze txonce.call`) // in a table that is almost empty, all plans cost the same
	for label, c := range map[string]struct {
		sql  string
		reqs []Request
	}{
		"one":  {f.store.sql.readOne, some[:1]},
		"some": {f.store.sql.readMany, some},
	} {
		for range 20 { // Postgres plans a statement anew for the first five times at least
			f.ask(c.reqs...)
		}
		var generic, custom int
		err := f.pool.QueryRow(t.Context(), `
			select generic_plans, custom_plans from pg_prepared_statements where position($1 in statement) > 0`, c.sql).Scan(&generic, &custom)
		if err != nil || generic < 30 || custom > 10 {
			t.Errorf("%s: one plan was used %d times, and %d were made: %v", label, generic, custom, err)
		}
	}
}

// TestStatuses_S05_ForeignAnswersAreNotFetched: the time would tell of them.
func TestStatuses_S05_ForeignAnswersAreNotFetched(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	var bytes atomic.Int64
	f := setup(t, nil, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return weighedConn{conn, &bytes}, err
		}
	})
	for _, key := range []string{"a", "b"} {
		if _, err := Run(t.Context(), f.store, request(key), func(context.Context, pgx.Tx) (string, error) { return strings.Repeat("x", large), nil }); err != nil {
			t.Fatal(err)
		}
	}
	mine := func(key string) toolcall.Ask { return toolcall.Ask{Scope: request(key).Scope, ID: idOf(request(key))} }
	theirs := func(key string) toolcall.Ask { return toolcall.Ask{Scope: "mallory", ID: idOf(request(key))} }
	for label, c := range map[string]struct {
		asks        []toolcall.Ask
		least, most int64 // bytes that come
	}{
		"one":              {[]toolcall.Ask{theirs("a")}, 0, large / 10},
		"two":              {[]toolcall.Ask{theirs("a"), theirs("b")}, 0, large / 10},
		"of the owner":     {[]toolcall.Ask{mine("a")}, large, 3 * large},
		"seven times":      {slices.Repeat([]toolcall.Ask{mine("a")}, 7), large, 3 * large},
		"no name":          {[]toolcall.Ask{{Scope: "a\x00", ID: idOf(request("a"))}}, 0, large / 10},
		"no name, and two": {[]toolcall.Ask{{Scope: "\xff", ID: idOf(request("a"))}, theirs("b")}, 0, large / 10},
	} {
		before := bytes.Load()
		got, err := f.store.Statuses(t.Context(), c.asks)
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		if n := bytes.Load() - before; n < c.least || n > c.most {
			t.Errorf("%s: %d bytes came, want %d to %d", label, n, c.least, c.most)
		}
		for _, s := range got {
			if (s.State == toolcall.StateNone) != (c.least == 0) {
				t.Errorf("%s: %s", label, s.State)
			}
		}
	}
	got, err := f.store.Statuses(t.Context(), []toolcall.Ask{theirs("a"), mine("a"), mine("b"), mine("a")})
	if err != nil || got[0].State != toolcall.StateNone || got[1].State != toolcall.StateSucceeded || got[2].State != toolcall.StateSucceeded || got[3].State != toolcall.StateSucceeded {
		t.Errorf("side by side: %v", err)
	}
}

type weighedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c weighedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}
