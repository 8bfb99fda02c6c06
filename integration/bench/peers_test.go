package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
)

// A whole run, a quick one. It counts effects and records itself, so that it ends without an error says that each call had its
// effect once, by either peer, and each job as well.
func TestPeers_Q01_Q03_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parsePeers([]string{"-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, progress bytes.Buffer
	if err := runPeers(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^bench-peers: vs_dbos_tput=\d+\.\d\d vs_dbos_lat=\d+\.\d\d vs_river_jobs=\d+\.\d\d$`)
	if last := lines[len(lines)-1]; !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	if n := strings.Count(out.String(), "the goal is"); n != 3 {
		t.Errorf("%d goals are told of:\n%s", n, out.String())
	}
	if n := strings.Count(progress.String(), "bench-peers: round 1 of 1: "); n != len(peerSettings()) {
		t.Errorf("progress is:\n%s", progress.String())
	}
	var left int
	err = dbtest.PoolAt(t, o.url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestParsePeers(t *testing.T) {
	t.Parallel()
	if o, err := parsePeers(nil, io.Discard); err != nil || o.rounds < 5 {
		t.Errorf("by default %+v, %v; medians need 5 rounds", o, err)
	}
	if o, err := parsePeers([]string{"-rounds", "7", "-time", "300ms"}, io.Discard); err != nil || o.rounds != 7 || o.time != 300*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-time", "0"}, {"-time", "-1s"}, {"more"}, {"-what"}} {
		if _, err := parsePeers(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// peersFixture is a database with DBOS launched in it.
func peersFixture(t *testing.T) (*peersBench, *dbosSides) {
	t.Helper()
	ctx := t.Context()
	db, err := openDatabase(ctx, dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newPeersBench(db, peersOptions{rounds: 1, time: time.Millisecond}, io.Discard)
	end := context.WithoutCancel(ctx)
	t.Cleanup(func() {
		if err := errors.Join(p.drop(end), db.close(end)); err != nil {
			t.Error(err)
		}
	})
	l, err := openLink(ctx, db, "socket", dbosConns, dialTo(serverOf(db)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.pool.Close)
	d, err := launchSides(ctx, db, l, dialTo(serverOf(db)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.shutdown(); err != nil {
			t.Error(err)
		}
	})
	p.links, p.shapes = []*link{direct: l}, peerShapes(d)
	if _, err := db.admin.Exec(ctx, p.sql.empty); err != nil {
		t.Fatal(err)
	}
	return p, d
}

// What is compared does the same: the key of a peer's call has one effect, however often it is used.
func TestPeers_Q01_AllRunAKeyOnce(t *testing.T) {
	t.Parallel()
	p, d := peersFixture(t)
	ctx, l := t.Context(), p.links[direct]
	for range 2 {
		for key, side := range map[string]*dbosSide{"a key of DBOS on two pools": d.twoPools, "a key of DBOS on one": d.onePool} {
			if err := side.call(ctx, l, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := callOurs(ctx, l, "a key of ours"); err != nil {
		t.Fatal(err)
	}
	if err := callReplay(ctx, l, "a key of ours"); err != nil {
		t.Fatal(err)
	}
	if err := callBatch(ctx, l, "a key of a batch"); err != nil {
		t.Fatal(err)
	}
	if err := p.verify(ctx, [peers]int{peerDBOSTwoPools: 1, peerDBOS: 1, peerOurs: 1, peerBatch: 1}); err != nil {
		t.Error(err)
	}
}

// What is told of DBOS in the documentation of this command is seen here.
func TestPeers_Q01_RoundTrips(t *testing.T) {
	t.Parallel()
	db, err := openDatabase(t.Context(), dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newPeersBench(db, peersOptions{}, io.Discard)
	end := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := errors.Join(p.drop(end), db.close(end)); err != nil {
			t.Error(err)
		}
	})
	if err := p.countTurns(t.Context()); err != nil {
		t.Fatal(err)
	}
	// DBOS looks for queued work beside.
	if got := p.turns; got[peerOurs] >= 4 || got[peerDBOS] < 17 || got[peerDBOSTwoPools] < 22 || got[peerBatch] >= 2 {
		t.Errorf("%v round trips, want 22, 17, 3, 1, 3 and 3", got)
	}
}

// A peer that has an effect too many, or none, must not get into the table.
func TestPeers_Q01_FailsWhenAPeerLies(t *testing.T) {
	t.Parallel()
	p, d := peersFixture(t)
	ctx := t.Context()
	for name, lie := range map[string]shape{
		"no effect": {call: func(context.Context, *link, string) error { return nil }},
		"no record": {call: callBare},
		"two effects": {call: func(ctx context.Context, l *link, key string) error {
			return errors.Join(callBare(ctx, l, key), d.onePool.call(ctx, l, key))
		}},
		"other's work": {call: callOurs},
	} {
		for _, peer := range []int{peerDBOSTwoPools, peerDBOS} {
			truth := p.shapes[peer]
			p.shapes[peer] = lie
			if err := p.measureOn(ctx, setting{direct, 1}, 0); err == nil || !strings.Contains(err.Error(), "should have left") {
				t.Errorf("%s instead of %s: got %v", name, truth.name, err)
			}
			p.shapes[peer] = truth
		}
	}
}
