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
	"github.com/txonce/txonce/txidem"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// A whole run, a quick one: each setting checks its tables, so that it ends without an error says that each shape
// wrote what it should.
func TestRun_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^bench: lat_1ms=N lat_sock=N tput16=N tput16_1ms=N floor=N of_floor=N vs_five=N replay=N allocs=M batch_1ms=N batch_tput16=N leased_1ms=N$`)
	last := regexp.MustCompile(`=\d+\.\d\d\b`).ReplaceAllString(lines[len(lines)-1], "=N")
	last = regexp.MustCompile(`=\d+\b`).ReplaceAllString(last, "=M")
	if !form.MatchString(last) {
		t.Errorf("the last line is\n%s", lines[len(lines)-1])
	}
	for _, s := range shapes() {
		if n := strings.Count(out.String(), "\n  "+s.name+" "); n != len(settings()) {
			t.Errorf("%s is in %d tables, want %d", s.name, n, len(settings()))
		}
	}
	if n := strings.Count(progress.String(), "\n"); n != 1+len(settings()) {
		t.Errorf("progress has %d lines:\n%s", n, progress.String())
	}
}

// On somebody's server we may be nobody: no checkpoints, and everything gone at the end.
func TestRun_OnAServerThatStays(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	var out bytes.Buffer
	o := options{rounds: 1, time: time.Millisecond, known: 3, url: url}
	if err := run(t.Context(), o, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "no checkpoints") {
		t.Errorf("it is not said that there were no checkpoints:\n%s", out.String())
	}
	var left int
	err := dbtest.PoolAt(t, url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	if o, err := parseOptions(nil, io.Discard); err != nil || o.rounds < 5 {
		t.Errorf("by default %+v, %v; medians need 5 rounds", o, err)
	}
	if o, err := parseOptions([]string{"-rounds", "7", "-time", "300ms"}, io.Discard); err != nil || o.rounds != 7 || o.time != 300*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-time", "0"}, {"-time", "-1s"}, {"more"}, {"-what"}} {
		if _, err := parseOptions(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// fixture is a database with one link of four connections.
func fixture(t *testing.T) (*database, *link) {
	t.Helper()
	ctx := t.Context()
	db, err := openDatabase(ctx, dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	l, err := openLink(ctx, db, "socket", 4, dialTo(serverOf(db)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.pool.Close)
	if err := db.empty(ctx); err != nil {
		t.Fatal(err)
	}
	return db, l
}

func TestShapes_DoWhatTheySay(t *testing.T) {
	t.Parallel()
	db, l := fixture(t)
	ctx := t.Context()
	for i, want := range []tally{
		bare:   {effects: 12},
		floor:  {effects: 12, records: 12},
		five:   {effects: 12, claims: 12},
		ours:   {effects: 12, records: 12},
		replay: {effects: 3, records: 3}, // of the calls that it replays
	} {
		s := shapes()[i]
		if err := db.empty(ctx); err != nil {
			t.Fatal(err)
		}
		var known []string
		if s.replays {
			var err error
			if known, err = makeKnown(ctx, l, 3); err != nil {
				t.Fatal(err)
			}
		}
		err := together(4, func(int) error {
			w := newWorkers(1, known)[0]
			for range 3 {
				if err := s.call(ctx, l, w.keyFor(s)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if got, err := db.tally(ctx); err != nil || got != want {
			t.Errorf("%s left %+v, %v; want %+v", s.name, got, err, want)
		}
	}
}

func TestShapes_Turns(t *testing.T) {
	t.Parallel()
	db, _ := fixture(t)
	turns, err := countTurns(t.Context(), db, shapes())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{bare: 3, floor: 3, five: 5, ours: 3, replay: 2, batch: 1, byHand: 2, leased: 2} {
		if turns[i] != want {
			t.Errorf("%s takes %v round trips, want %v", shapes()[i].name, turns[i], want)
		}
	}
}

// What floor writes is a record of txidem in every respect: the same size as one of ours, and replayed by Run.
func TestFloor_WritesTheRecordOfOurs(t *testing.T) {
	t.Parallel()
	db, l := fixture(t)
	ctx := t.Context()
	if err := callFloor(ctx, l, "from-floor"); err != nil {
		t.Fatal(err)
	}
	if err := callReplay(ctx, l, "from-floor"); err != nil {
		t.Errorf("a record of floor: %v", err)
	}
	other := request("from-floor")
	other.Args = []byte(`{"order_id": "another"}`)
	if _, err := txidem.Run(ctx, l.store, other, l.handler("from-floor")); !errors.Is(err, txidem.ErrKeyReused) {
		t.Errorf("other arguments under floor's key: %v, want ErrKeyReused", err)
	}
	if err := callOurs(ctx, l, "from-ours_"); err != nil {
		t.Fatal(err)
	}
	var sizes int
	err := db.admin.QueryRow(ctx, `select count(distinct pg_column_size(call.*)) from `+db.calls+`.call`).Scan(&sizes)
	if err != nil || sizes != 1 {
		t.Errorf("%d sizes of record, %v; want 1", sizes, err)
	}
}

func TestShapes_RefuseTheOtherCase(t *testing.T) {
	t.Parallel()
	_, l := fixture(t)
	ctx := t.Context()
	if err := callReplay(ctx, l, "new"); err == nil {
		t.Error("replay accepts a call that is not recorded")
	}
	for _, s := range []shape{shapes()[ours], shapes()[five], shapes()[floor]} {
		if err := s.call(ctx, l, "twice-"+s.name); err != nil {
			t.Fatal(err)
		}
		if err := s.call(ctx, l, "twice-"+s.name); err == nil {
			t.Errorf("%s accepts a call that is recorded", s.name)
		}
	}
}

func TestVerify_MissesNothing(t *testing.T) {
	t.Parallel()
	db, l := fixture(t)
	ctx := t.Context()
	if err := callOurs(ctx, l, "one"); err != nil {
		t.Fatal(err)
	}
	if err := db.verify(ctx, tally{effects: 1, records: 1}); err != nil {
		t.Error(err)
	}
	for _, wrong := range []tally{{effects: 2, records: 1}, {effects: 1}, {effects: 1, records: 1, claims: 1}} {
		if err := db.verify(ctx, wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// A shape that writes less than it says must not get into the table.
func TestMeasure_FailsWhenAShapeLies(t *testing.T) {
	t.Parallel()
	db, l := fixture(t)
	lying := shapes()
	lying[floor].call = callBare
	b := &bench{
		db: db, shapes: lying, links: []*link{l}, samples: make(map[cell][]sample), progress: io.Discard,
		options: options{rounds: 1, time: time.Millisecond, known: 1},
	}
	if err := b.measure(t.Context(), setting{direct, 1}, 0); err == nil || !strings.Contains(err.Error(), "should have left") {
		t.Errorf("got %v", err)
	}
}
