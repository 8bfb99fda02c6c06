package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
)

// A whole run, a short one. It compares what it did with the tables, so that it ends without an error says that each call had
// its effect once, each job ended, each message arrived, and nothing was left.
func TestSoak_Q02_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	o, err := parseSoak([]string{"-time", "4s", "-rate", "20"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, progress bytes.Buffer
	if err := runSoak(t.Context(), o, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	form := regexp.MustCompile(`^soak: rss_growth=\d+\.\d\d goroutines=[1-9]\d*->[1-9]\d* calls=[1-9]\d+ errors=0$`)
	if last := lines[len(lines)-1]; !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	if !strings.Contains(progress.String(), "goroutines, ") {
		t.Errorf("no sample was shown:\n%s", progress.String())
	}
	for _, word := range []string{"RSS", "sessions that the server has", "p99 from COMMIT", "left when all was closed: nothing: met"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("nothing is said of %q:\n%s", word, out.String())
		}
	}
	var left int
	err = dbtest.PoolAt(t, o.url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestParseSoak(t *testing.T) {
	t.Parallel()
	if o, err := parseSoak(nil, io.Discard); err != nil || o.time != time.Hour || o.rate != 300 {
		t.Errorf("by default %+v, %v; Q02 wants an hour", o, err)
	}
	for _, bad := range [][]string{{"-time", "1s"}, {"-rate", "0"}, {"-rate", "10001"}, {"more"}, {"-what"}} {
		if _, err := parseSoak(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSoakKinds_AreAHundredPerCent(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, kind := range (&soakWorld{}).kinds() {
		sum += kind.percent
	}
	if sum != 100 {
		t.Errorf("%d %%", sum)
	}
}

// soaked is a short run in which each operation does something else as well.
func soaked(t *testing.T, also func(s *soak)) *soak {
	t.Helper()
	db, err := openDatabase(t.Context(), dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s := newSoak(db, soakOptions{time: 3 * time.Second, rate: 20}, io.Discard)
	s.also = func() { also(s) }
	s.patience = time.Second // what is left is left on purpose
	if err := s.flock.do(t.Context(), s.measure); err != nil {
		t.Fatal(err)
	}
	return s
}

// misses runs the report and says which verdicts are bad.
func (s *soak) misses(t *testing.T) string {
	t.Helper()
	err := s.report(io.Discard, s.options.time)
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestSoak_Q02_FailsWhenGoroutinesLeak(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	got := soaked(t, func(*soak) { go func() { <-end }() }).misses(t)
	if !strings.Contains(got, "left when all was closed: ") || !strings.Contains(got, "goroutines and 0 sessions") {
		t.Errorf("what is left is not told of: %s", got)
	}
}

func TestSoak_Q02_FailsWhenSessionsLeak(t *testing.T) {
	t.Parallel()
	leaked := make(chan *pgx.Conn, 20)
	s := soaked(t, func(s *soak) {
		if len(leaked) == cap(leaked) {
			return
		}
		conn, err := pgx.ConnectConfig(t.Context(), s.world.link.pool.Config().ConnConfig)
		if err != nil {
			t.Error(err)
			return
		}
		select {
		case leaked <- conn:
		default:
			_ = conn.Close(t.Context())
		}
	})
	if got := s.misses(t); !strings.Contains(got, "and 20 sessions") {
		t.Errorf("got %q", got)
	}
	close(leaked)
	for conn := range leaked {
		_ = conn.Close(t.Context())
	}
}

func TestSoak_Q02_FailsWhenAnythingGoesWrong(t *testing.T) {
	t.Parallel()
	type harmed struct {
		harm func(s *soak)
		want string
	}
	for name, c := range dbtest.Sample(t, 2, map[string]harmed{
		"an error":           {func(s *soak) { s.books.fail(errors.New("planted")) }, "(the first: planted)"},
		"an effect too many": {func(s *soak) { s.books.tidied.Add(1) }, "effects, and"},
		"an effect too few":  {func(s *soak) { s.books.effects.Add(1) }, "effects, and"},
		"a message too many": {func(s *soak) { s.world.trips.committed(-int(time.Now().UnixNano()), time.Now()) }, "delivered twice"},
		"a warning in a log": {func(s *soak) { slog.New(&s.world.log).Warn("planted") }, "a warning was logged: planted"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := soaked(t, c.harm).misses(t); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Goroutines of one run are counted, and those that they start, and no other's.
func TestFlock_CountsItsOwn(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	wait := func() { <-end }
	other := flock{"another"}
	_ = other.do(t.Context(), func(context.Context) error { go wait(); return nil })
	mine := flock{"mine"}
	err := mine.do(t.Context(), func(context.Context) error {
		go func() { go wait(); wait() }()
		for n := 0; n < 3; n, _ = mine.members() { // itself, and two
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	n, stacks := mine.members()
	if err != nil || n != 2 || !strings.Contains(stacks, "TestFlock_CountsItsOwn") {
		t.Errorf("%d members, %v:\n%s", n, err, stacks)
	}
	if pprof.Lookup("goroutine").Count() <= n {
		t.Error("there are no other goroutines to be left out")
	}
}

// Operations under way are no leak, however many there are; what they leave behind is.
func TestFlock_LeavesOutOperationsUnderWay(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	s := &soak{options: soakOptions{time: time.Hour, rate: 1000}, flock: flock{"with operations"}}
	s.also = func() {
		go func() { <-end }()
		<-end
		runtime.Goexit() // it is no operation of any kind
	}
	ctx, stop := context.WithCancel(t.Context())
	err := s.flock.do(ctx, func(ctx context.Context) error {
		loaded := make(chan struct{})
		go func() {
			defer close(loaded)
			s.load(ctx)
		}()
		for s.books.underWay.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		stop()
		n := 0
		for deadline := time.Now().Add(hangs); n < 22 && time.Now().Before(deadline); n, _ = s.flock.members() { // this one, the load, and what is left behind
			time.Sleep(time.Millisecond)
		}
		begun := int(s.books.underWay.Load())
		close(end)
		<-loaded
		if n < 22 || n > 2+begun {
			return fmt.Errorf("%d members beside %d operations that leave one each", n, begun)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// samplesOf makes samples of a run of an hour.
func samplesOf(n int, at func(i int, s *soakSample)) *soak {
	s := &soak{options: soakOptions{time: time.Hour, rate: 1}}
	s.books.done.Store(3600)
	for i := range n {
		sample := soakSample{rss: 100 << 20, goroutines: 40, conns: 24, sessions: 25, tables: []soakTable{{"call", 10 << 20, 5 << 20}}}
		at(i, &sample)
		s.samples = append(s.samples, sample)
	}
	return s
}

// What grows in a long run is judged behind the warm-up, by medians: one odd sample is none.
func TestSoakVerdicts_Q02(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   func(i int, s *soakSample)
		want string // in what is bad; empty for nothing
	}{
		"flat":                        {func(int, *soakSample) {}, ""},
		"memory in the warm-up":       {func(i int, s *soakSample) { s.rss = min(100, int64(50+10*i)) << 20 }, ""},
		"one odd sample":              {func(i int, s *soakSample) { s.rss, s.goroutines = s.rss*int64(1+i/59), s.goroutines*(1+i/59) }, ""},
		"memory, steadily":            {func(i int, s *soakSample) { s.rss += int64(i) << 20 }, "memory of the process: 1.44"},
		"memory, unknown":             {func(_ int, s *soakSample) { s.rss = 0 }, "memory of the process: not known"},
		"memory, by less":             {func(i int, s *soakSample) { s.rss += int64(i) << 19 }, ""},
		"goroutines":                  {func(i int, s *soakSample) { s.goroutines += i * 2 / 3 }, "goroutines: 46, then 78"},
		"goroutines, a few":           {func(i int, s *soakSample) { s.goroutines += i / 2 }, ""},
		"sessions":                    {func(i int, s *soakSample) { s.sessions += i / 8 }, "sessions: 26, then 32"},
		"connections of the pool":     {func(i int, s *soakSample) { s.conns += i / 8 }, "sessions: 25, then 25"},
		"a table that grows":          {func(i int, s *soakSample) { s.tables[0].table += int64(i) << 20 }, "call, from 54.0 to 74.0 MB"},
		"a table that came to a size": {func(i int, s *soakSample) { s.tables[0].table += int64(min(i, 30)) << 20 }, ""},
	} {
		err := judge(samplesOf(60, c.at).verdicts())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	late := samplesOf(60, func(int, *soakSample) {})
	late.books.done.Store(3200)
	if err := judge(late.verdicts()); err == nil || !strings.Contains(err.Error(), "of the asked rate") {
		t.Errorf("calls that were not made in time: %v", err)
	}
	short := samplesOf(60, func(i int, s *soakSample) { s.rss += int64(i) << 30 })
	short.options.time = judgedFrom - time.Second
	short.books.done.Store(600)
	if err := judge(short.verdicts()); err != nil {
		t.Errorf("memory is judged in a short run: %v", err)
	}
}

func TestRecent_KnowsTheYoungOnly(t *testing.T) {
	t.Parallel()
	var r recent
	if _, ok := r.pick(time.Hour); ok {
		t.Error("there is none")
	}
	for i := range 3 * len(r.calls) {
		r.add(knownCall{key: "old", at: time.Now().Add(-time.Duration(3*len(r.calls)-i) * time.Minute)})
	}
	if c, ok := r.pick(30 * time.Second); ok {
		t.Errorf("%+v is young", c)
	}
	r.add(knownCall{key: "young", at: time.Now()})
	if c, ok := r.pick(time.Minute); !ok || c.key != "young" {
		t.Errorf("%+v, %v; want the young one", c, ok)
	}
}
