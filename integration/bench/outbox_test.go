package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
)

// runQuickly runs "bench outbox" and returns what it reports.
func runQuickly(t *testing.T, args ...string) (report, progress string) {
	t.Helper()
	o, err := parseOutbox(append([]string{"-quick"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.url = dbtest.URL(t)
	var out, said bytes.Buffer
	if err := runOutbox(t.Context(), o, &out, &said); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	var left int
	err = dbtest.PoolAt(t, o.url, nil).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'txonce_bench%'`).Scan(&left)
	if err != nil || left > 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
	return out.String(), said.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// A whole run, a quick one. It counts messages and attempts itself, so that it ends without an error says that each message was
// delivered by one attempt in each setting, and that each call that publishes left its message.
func TestOutbox_Q03_EndsWithTheLine(t *testing.T) {
	t.Parallel()
	out, progress := runQuickly(t)
	form := regexp.MustCompile(`^bench-outbox: unordered_per_s=\d+ ordered_per_s=\d+ p50_ms=-?\d+\.\d\d publish_cost=\d+\.\d\d$`)
	if last := lastLine(out); !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	var names []string
	for _, c := range rateCells() {
		names = append(names, c.name)
	}
	for _, c := range tripCells() {
		names = append(names, c.name)
	}
	for _, c := range drainCells() {
		names = append(names, c.name)
	}
	for _, name := range names {
		if !strings.Contains(out, "\n  "+name+" ") || !strings.Contains(progress, name) {
			t.Errorf("%s is missing:\n%s\n%s", name, out, progress)
		}
	}
	if n := strings.Count(out, " the goal is "); n != 4 {
		t.Errorf("%d goals:\n%s", n, out)
	}
}

func TestOutbox_O10_BloatEndsWithTheLine(t *testing.T) {
	t.Parallel()
	out, _ := runQuickly(t, "-bloat", "1s")
	form := regexp.MustCompile(`^bench-outbox: bloat_msgs_per_s=\d+ claim_p99_ms=\d+\.\d\d claim_p99_held_ms=\d+\.\d\d trip_p99_ms=-?\d+\.\d trip_p99_held_ms=-?\d+\.\d pending_held_mb=\d+\.\d pending_end_mb=\d+\.\d$`)
	if last := lastLine(out); !form.MatchString(last) {
		t.Errorf("the last line is\n%s", last)
	}
	for _, phase := range []string{"no snapshot", "snapshot held", "released, vacuumed", "afterwards"} {
		if strings.Count(out, "\n  "+phase) < 2 {
			t.Errorf("%s is not in both tables:\n%s", phase, out)
		}
	}
}

// The cells that the goals are about are those that the constants name.
func TestRateCells_Q03_GoalsAreAboutCallsAndOneRelay(t *testing.T) {
	t.Parallel()
	all := rateCells()
	for i, keys := range map[int]int{unorderedCalls: 0, orderedCalls: 1000} {
		if c := all[i]; !c.publish.calls || c.relays != 1 || c.keys != keys {
			t.Errorf("it is about %+v", c)
		}
	}
	if c := tripCells()[nearTrips]; !c.near || c.keys != 0 {
		t.Errorf("it is about %+v", c)
	}
}

func TestParseOutbox(t *testing.T) {
	t.Parallel()
	o, err := parseOutbox(nil, io.Discard)
	if err != nil || o.rounds < 5 || o.backlog != 20_000 || o.concurrency != 64 || o.bloat != 0 || !slices.Equal(o.parts, outboxParts()) {
		t.Errorf("by default %+v, %v; medians need 5 rounds", o, err)
	}
	o, err = parseOutbox([]string{"-rounds", "7", "-time", "300ms", "-trips", "2s", "-backlog", "9", "-concurrency", "16", "-bloat", "10m", "-parts", "trips,rates"}, io.Discard)
	if err != nil || o.rounds != 7 || o.time != 300*time.Millisecond || o.trips != 2*time.Second || o.backlog != 9 || o.concurrency != 16 || o.bloat != 10*time.Minute || len(o.parts) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{
		{"-rounds", "0"},
		{"-time", "1ms"},
		{"-trips", "1ms"},
		{"-backlog", "0"},
		{"-concurrency", "0"},
		{"-concurrency", "1001"},
		{"-bloat", "1ms"},
		{"-bloat", "-1s"},
		{"-parts", "rates,more"},
		{"-parts", ""},
		{"more"},
		{"-what"},
	} {
		if _, err := parseOutbox(bad, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// outboxFixture is a database with the pools of both processes.
func outboxFixture(t *testing.T) *outboxBench {
	t.Helper()
	db, err := openDatabase(t.Context(), dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	b := newOutboxBench(db, outboxOptions{rounds: 1, time: 50 * time.Millisecond, trips: 50 * time.Millisecond, backlog: 20, concurrency: 8}, io.Discard)
	t.Cleanup(func() {
		b.close()
		if err := db.close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := b.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func takes(context.Context, outbox.Delivery) (outbox.Outcome, error) {
	return outbox.Outcome{Class: outbox.Delivered}, nil
}

// Messages that were not delivered, or twice, must not get into the table.
func TestOutboxVerify_Q03_MissesNothing(t *testing.T) {
	t.Parallel()
	b := outboxFixture(t)
	p, err := b.newProcess(b.here.pool, takes)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.drain(t.Context(), &drainCell{keys: 3}); err != nil {
		t.Fatal(err)
	}
	n := b.options.backlog
	for _, change := range []string{
		`update {calls}.message_outcome set attempts = 2 where id = (select id from {calls}.message limit 1)`,
		`delete from {calls}.message_outcome where id = (select id from {calls}.message limit 1)`,
	} {
		if err := b.verify(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if _, err := b.db.admin.Exec(t.Context(), strings.ReplaceAll(change, "{calls}", b.db.calls)); err != nil {
			t.Fatal(err)
		}
		if err := b.verify(t.Context(), n); err == nil || !strings.Contains(err.Error(), "should have left") {
			t.Errorf("%s: got %v", change, err)
		}
		if err := b.drain(t.Context(), &drainCell{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := (publishing{each: 1}).do(t.Context(), b.here, p, newWorkers(1, nil)[0], ""); err != nil {
		t.Fatal(err)
	}
	if err := b.verify(t.Context(), n); err == nil {
		t.Error("a message that waits is not seen")
	}
}

// Calls whose messages are missing must not get into the table.
func TestPublishBench_Q03_FailsWhenAMessageIsMissing(t *testing.T) {
	t.Parallel()
	b := outboxFixture(t)
	p := &publishBench{outbox: b, bench: bench{db: b.db}}
	for i, call := range []func(context.Context, *link, string) error{callOurs, p.callPublishes} {
		if err := call(t.Context(), b.here, "call "+string(rune('a'+i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.verify(t.Context(), [2]int{1, 1}); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][2]int{{0, 2}, {2, 0}, {1, 2}} {
		if err := p.verify(t.Context(), wrong); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

// Who publishes waits where too much waits: else the rate would be that of a relay that falls behind.
func TestStream_Q03_WaitsForRoom(t *testing.T) {
	t.Parallel()
	b := outboxFixture(t)
	const most = 5
	s := &stream{bench: b, cell: &rateCell{publish: publishing{each: 1}, relays: 1}, room: make(chan struct{}, most)}
	all, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got int
	var over atomic.Bool
	go func() {
		defer cancel()
		count := func() int {
			got = -1
			if tally, err := b.tally(ctx); err == nil {
				got = tally.messages
			}
			return got
		}
		_ = await(ctx, most, count) // nobody relays, so that there is no room any more
		for range 20 {              // in this time others could be published
			_ = callBare(ctx, b.here, "meanwhile")
		}
		count()
	}()
	published, err := s.publishAlways(ctx, all[0], newWorkers(1, nil)[0], &over)
	if published != most || got != most || !errors.Is(err, context.Canceled) {
		t.Errorf("%d are published and %d are there, %v", published, got, err)
	}
}

// A trip has a time whichever end is heard of first, and a message that comes twice is seen.
func TestTrips_Q03_BothEnds(t *testing.T) {
	t.Parallel()
	s, now := newTrips(), time.Now()
	s.committed(1, now)
	if s.waiting() != 1 || s.arrived() != 0 {
		t.Errorf("%d wait, %d have arrived", s.waiting(), s.arrived())
	}
	s.mark(1, now.Add(time.Second), s.came, s.sent, 1)
	s.mark(2, now, s.came, s.sent, 1)
	s.committed(2, now.Add(time.Minute))
	if took := s.since(); !slices.Equal(took, []time.Duration{time.Second, -time.Minute}) || s.arrived() != 2 || s.alone() != 0 {
		t.Errorf("they took %v; %d have arrived, %d are alone", took, s.arrived(), s.alone())
	}
	if out, err := s.deliver(t.Context(), outbox.Delivery{Body: messageOf("", "2").Body}); err != nil || out.Class != outbox.Delivered || s.alone() != 1 || len(s.since()) != 0 {
		t.Errorf("%+v, %v; %d are alone", out, err, s.alone())
	}
	if out, _ := s.deliver(t.Context(), outbox.Delivery{Body: []byte("a refund")}); out.Class == outbox.Delivered {
		t.Error("a message without a number is taken")
	}
}

// A relay that warns of something measures something else.
func TestProcess_Q03_ComplaintsFail(t *testing.T) {
	t.Parallel()
	b := outboxFixture(t)
	p, err := b.newProcess(b.here.pool, takes)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(&p.complaints).With("destination", receiverName)
	log.Info("all is well")
	stop := p.start(t.Context())
	if err := p.complaints.first(); err != nil {
		t.Error(err)
	}
	log.Warn("messages could not be claimed", "error", "no table")
	log.Warn("and again")
	if err := stop(); err == nil || !strings.Contains(err.Error(), "messages could not be claimed error=no table") {
		t.Errorf("got %v", err)
	}
}

// While the snapshot is held no vacuum removes anything, and afterwards one does.
func TestBloat_O10_HoldsASnapshot(t *testing.T) {
	t.Parallel()
	b := outboxFixture(t)
	l := &bloat{bench: b}
	size := func() (bytes int) {
		table := b.db.calls + "_app.effect"
		if _, err := b.db.admin.Exec(t.Context(), "vacuum "+table); err != nil {
			t.Error(err)
		}
		if err := b.db.admin.QueryRow(t.Context(), `select pg_relation_size($1::text::regclass)`, table).Scan(&bytes); err != nil {
			t.Error(err)
		}
		return bytes
	}
	if err := callBare(t.Context(), b.here, "a row"); err != nil {
		t.Fatal(err)
	}
	if err := l.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.db.admin.Exec(t.Context(), "delete from "+b.db.calls+"_app.effect"); err != nil {
		t.Fatal(err)
	}
	if size() == 0 {
		t.Error("a vacuum has removed what the snapshot sees")
	}
	if err := l.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := func() int { return map[bool]int{true: 1}[size() == 0] }
	if err := await(t.Context(), 1, gone); err != nil { // the server may take a moment to end the session
		t.Error(err)
	}
}

// What claims is known by what it does, and nothing else is taken for it.
func TestClaimTimes_O10_KnowsClaims(t *testing.T) {
	t.Parallel()
	var c claimTimes
	round := func(err error, sql ...string) {
		b := &pgx.Batch{}
		for _, one := range sql {
			b.Queue(one)
		}
		ctx := c.TraceBatchStart(t.Context(), nil, pgx.TraceBatchStartData{Batch: b})
		c.TraceBatchEnd(ctx, nil, pgx.TraceBatchEndData{Err: err})
	}
	round(nil, `delete from x.message_pending`)
	round(nil, `select from x.message_outcome for update skip locked`)
	round(errors.New("refused"), `select from x.message_pending for update skip locked`)
	if err := c.seen(); err == nil {
		t.Error("others are taken for claims")
	}
	round(nil, `select`, `select from x.message_pending for update skip locked`)
	if took := c.since(); len(took) != 1 || c.seen() != nil || len(c.since()) != 0 {
		t.Errorf("%v", took)
	}
}

// Who waits gives up when nothing moves, not when it takes long.
func TestAwait_Q03_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := 0
	if err := await(t.Context(), 3, func() int { n++; return n }); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := await(ctx, 1, func() int { return 0 }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
