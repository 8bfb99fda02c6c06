package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/txidem"
)

// A whole run, a quick one. It counts the rows of its tables itself, so that it ends without an error says that each
// holds what was loaded and called, less what was swept.
func TestGrowth_Q02_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parseGrowth([]string{"-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, progress bytes.Buffer
	if err := runGrowth(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^growth: p50_1e4/1e2=\d+\.\d\d p99_1e4/1e2=\d+\.\d\d sweep_per_s=[1-9]\d* sweep_idle_ms=\d+\.\d\d wal_per_call=[1-9]\d*$`)
	if last := lines[len(lines)-1]; !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	for _, name := range []string{"1e2", "1e3", "1e4"} {
		if n := strings.Count(out.String(), "\n  "+name+" "); n != 1 {
			t.Errorf("%s has %d lines in the table:\n%s", name, n, out.String())
		}
		if n := strings.Count(progress.String(), "growth: "+name+": records kept for "); n != 2 {
			t.Errorf("%d loads of %s were shown:\n%s", n, name, progress.String())
		}
	}
	if n := strings.Count(progress.String(), "(100 %)"); n != 2*3+sweepRuns {
		t.Errorf("%d loads came to their end:\n%s", n, progress.String())
	}
	noSchemaLeft(t, o.url)
}

func noSchemaLeft(t *testing.T, url string) {
	t.Helper()
	var left int
	err := dbtest.PoolAt(t, url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_growth%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

// stopper is a progress that calls stop when it hears the words.
type stopper struct {
	words string
	stop  func()
}

func (s stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.words) {
		s.stop()
	}
	return len(p), nil
}

// Whatever an interrupt breaks, a server that stays is as it was.
func TestGrowth_InterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"will need about", "1e3: records kept", "vacuum, analyze", "round 1 of", "expired records", "sweeping nothing"} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := growthOptions{sizes: []int{100, 1000}, time: 10 * time.Millisecond, workers: 1, expire: 100, url: dbtest.URL(t)}
			if err := runGrowth(ctx, o, io.Discard, stopper{words, cancel}); err == nil {
				t.Error("it went on to the end")
			}
			noSchemaLeft(t, o.url)
		})
	}
}

// A row that goes behind the benchmark's back is found out in the end.
func TestGrowth_CountsInTheEnd(t *testing.T) {
	t.Parallel()
	o := growthOptions{sizes: []int{100, 1000}, time: 10 * time.Millisecond, workers: 1, expire: 100, url: dbtest.URL(t)}
	pool := dbtest.PoolAt(t, o.url, nil)
	remove := func() {
		_, err := pool.Exec(t.Context(), fmt.Sprintf(`delete from txonce_growth_%d_1e2.call where key = 'x:a pattern'`, os.Getpid()))
		if err != nil {
			t.Error(err)
		}
	}
	err := runGrowth(t.Context(), o, io.Discard, stopper{"vacuum, then sweeping nothing", remove})
	if err == nil || !strings.Contains(err.Error(), "1e2: the tables hold") {
		t.Errorf("got %v", err)
	}
}

// What expires during the vacuum is gone before it: what is deleted later leaves entries in the index again.
func TestSweepNothing_Q02_NothingIsDeletedBehindTheVacuum(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s, ctx := g.sizes[0], t.Context()
	if err := g.copyRecords(ctx, s, 100, 20*time.Minute, 0, "records that expire later"); err != nil {
		t.Fatal(err)
	}
	if err := g.sweepNothing(ctx); err != nil {
		t.Fatal(err)
	}
	if g.sweeps.dead < 70 || s.gone > 80 || g.sweeps.vacuumed <= 0 { // 75, and some for time that passed
		t.Errorf("%d were deleted in front of the first passes, %d in all; %+v", g.sweeps.dead, s.gone, g.sweeps)
	}
}

func TestDatabase_IsDroppedAlsoWhenTheConnectionIsGone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := devpg.Start(ctx, &devpg.Config{URL: dbtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	db, err := newDatabase(ctx, server, "txonce_growth_broken")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.admin.Close(ctx) // as an interrupt does inside a statement
	if err := db.drop(ctx); err != nil {
		t.Error(err)
	}
	noSchemaLeft(t, server.URL())
}

// grown opens tables for the sizes in a database of the test's own.
func grown(t *testing.T, sizes ...int) *growth {
	t.Helper()
	ctx := t.Context()
	server, err := devpg.Start(ctx, &devpg.Config{URL: dbtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	g := &growth{server: server, progress: io.Discard, options: growthOptions{sizes: sizes, time: time.Millisecond, workers: 2, expire: 10}}
	t.Cleanup(func() {
		if err := g.close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := g.open(ctx); err != nil {
		t.Fatal(err)
	}
	return g
}

// query returns the one row of the statement, in which %s is the table.
func (s *size) query(t *testing.T, sql string, into ...any) {
	t.Helper()
	if err := s.db.admin.QueryRow(t.Context(), fmt.Sprintf(sql, s.db.calls+".call")).Scan(into...); err != nil {
		t.Fatal(err)
	}
}

// What is loaded are records of txidem in every respect: of the size of a call's, replayed, compared.
func TestLoad_WritesRecordsOfCalls(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s, ctx := g.sizes[0], t.Context()
	if err := g.copyRecords(ctx, s, 9, longRetention, 0, "records"); err != nil { // 9: numbers of one digit
		t.Fatal(err)
	}
	var key string
	s.query(t, `select substr(key, 3) from %s where key <> 'x:a pattern' limit 1`, &key)
	if err := callReplay(ctx, s.link, key); err != nil {
		t.Errorf("a record that was loaded: %v", err)
	}
	other := request(key)
	other.Args = []byte(`{"order_id": "another"}`)
	if _, err := txidem.Run(ctx, s.link.store, other, s.link.handler(key)); !errors.Is(err, txidem.ErrKeyReused) {
		t.Errorf("other arguments under its key: %v, want ErrKeyReused", err)
	}
	if err := callOurs(ctx, s.link, newWorkers(1, nil)[0].newKey()); err != nil {
		t.Fatal(err)
	}
	var sizes, answers, ids int
	s.query(t, `select count(distinct pg_column_size(c.*)), count(distinct answer), count(distinct id) from %s c where key <> 'x:a pattern'`,
		&sizes, &answers, &ids)
	if sizes != 1 || answers != 9 || ids != 10 { // the call's answer is that of the first record
		t.Errorf("%d sizes of record, %d answers, %d ids; want 1, 9, 10", sizes, answers, ids)
	}
}

// A seventeenth is kept for ten minutes, the rest for a day, and all expire evenly over the coming time.
func TestLoad_R12_MixesRetentions(t *testing.T) {
	t.Parallel()
	g := grown(t, 170, 1000)
	if err := g.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.sizes {
		for retention, want := range map[time.Duration]int{shortRetention: s.records / 17, longRetention: s.records - s.records/17} {
			var n, quarters, expired int
			var spread time.Duration
			s.query(t, `
				select count(*), max(expires_at) - min(expires_at), count(*) filter (where expires_at < now()),
				       count(distinct floor(4 * extract(epoch from expires_at - now()) / extract(epoch from expires_at - finished_at)))
				  from %s where key <> 'x:a pattern' and expires_at - finished_at = make_interval(secs => `+fmt.Sprint(retention.Seconds())+`)`,
				&n, &spread, &expired, &quarters)
			even := retention - retention/time.Duration(want)
			if n != want || expired > 0 || quarters < 4 || (spread-even).Abs() > time.Millisecond {
				t.Errorf("%s, %v: %d records (want %d), %d expired, in %d quarters, over %v (want %v)", s.name, retention, n, want, expired, quarters, spread, even)
			}
		}
		if err := s.verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestLoad_RefusesATableThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s := g.sizes[0]
	if _, err := s.db.admin.Exec(t.Context(), `alter table `+s.db.calls+`.call rename column answer to reply`); err != nil {
		t.Fatal(err)
	}
	s.link.pool.Reset() // its plans are of the old table
	err := g.copyRecords(t.Context(), s, 1, longRetention, 0, "records")
	if err == nil || !strings.Contains(err.Error(), "no column answer") {
		t.Errorf("got %v", err)
	}
}

// A column that comes with a later migration is copied like any other.
func TestLoad_D07_TakesNewColumns(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s := g.sizes[0]
	_, err := s.db.admin.Exec(t.Context(), `alter table `+s.db.calls+`.call add later_flag boolean not null default false, add later_time timestamptz`)
	if err != nil {
		t.Fatal(err)
	}
	s.link.pool.Reset() // its plans are of the old table
	if err := g.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int
	s.query(t, `select count(*) from %s where not later_flag and later_time is null`, &n)
	if n != 101 {
		t.Errorf("%d records, want 100 and the pattern", n)
	}
}

// The calls of a turn are forgotten at once, so that the table keeps its size; the sweeper takes what has expired, and all
// is counted.
func TestTurn_R12_SweepsBesideCalls(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s, ctx := g.sizes[0], t.Context()
	if err := s.turn(ctx, newWorkers(2, nil), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	var calls, brief int
	s.query(t, `select count(*), count(*) filter (where expires_at - finished_at < interval '1 hour') from %s where key <> 'x:a pattern'`, &calls, &brief)
	if calls != brief || calls < 3 {
		t.Errorf("%d of %d calls are kept briefly", brief, calls)
	}
	if err := g.copyRecords(ctx, s, 1500, time.Second, time.Minute, "expired"); err != nil {
		t.Fatal(err)
	}
	stop := s.sweepBeside(ctx)
	deleted, err := stop()
	if err != nil || deleted < 1500 {
		t.Errorf("%d deleted, %v; want 1500 or more, also when it is stopped at once", deleted, err)
	}
	if err := s.verify(ctx); err != nil {
		t.Error(err)
	}
	turn := s.turns[0]
	if turn.calls < 2 || turn.quietCalls < 2 || turn.p50 <= 0 || turn.quietWAL <= 0 || turn.wal <= 0 || s.all.n != turn.calls {
		t.Errorf("%+v, %d times", turn, s.all.n)
	}
}

func TestSizeVerify_MissesNothing(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s, ctx := g.sizes[0], t.Context()
	if err := g.load(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.verify(ctx); err != nil {
		t.Error(err)
	}
	for _, wrong := range []func(by int){
		func(by int) { s.made.records += by }, func(by int) { s.made.effects += by }, func(by int) { s.gone += by },
	} {
		wrong(1)
		if err := g.verify(ctx); err == nil || !strings.Contains(err.Error(), "should have left") {
			t.Errorf("one more: %v", err)
		}
		wrong(-1)
	}
}

// A timed sweep must have swept what was there, or its rate means nothing.
func TestSweepMany_R12_FailsWhenRecordsStay(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	_, err := g.sizes[0].db.admin.Exec(t.Context(), `
		create function pg_temp.stay() returns trigger language plpgsql as 'begin new.expires_at = null; return new; end';
		create trigger stay before insert on `+g.sizes[0].db.calls+`.call for each row execute function pg_temp.stay()`)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.sweepMany(t.Context()); err == nil || !strings.Contains(err.Error(), "a sweep deleted 0 of 10") {
		t.Errorf("got %v", err)
	}
}

// Passes that had something to do are no idle passes.
func TestIdle_Q02_MeasuresOnlyEmptyPasses(t *testing.T) {
	t.Parallel()
	g := grown(t, 100)
	s, ctx := g.sizes[0], t.Context()
	if err := g.copyRecords(ctx, s, 50, 30*time.Second, 0, "records that expire soon"); err != nil {
		t.Fatal(err)
	}
	if err := s.clear(ctx); err != nil {
		t.Fatal(err)
	}
	first, others, err := s.idle(ctx)
	if err != nil || first <= 0 || others <= 0 {
		t.Errorf("%v, %v, %v", first, others, err)
	}
	if s.gone != 50 {
		t.Errorf("%d records were taken out of the way, want 50", s.gone)
	}
	if err := s.verify(ctx); err != nil {
		t.Error(err)
	}
}
