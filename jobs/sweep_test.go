package jobs

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
)

// fill writes n jobs as they are when they wait, with the columns that differ.
func (f *fixture) fill(n int, columns string) {
	f.t.Helper()
	f.exec(`insert into txonce.job (id, scope, kind, queue, priority, state, args, keep, bell, max_attempts, created_at, run_at, check_at)
		select gen_random_uuid(), 'alice', 'plain', 'default', 1, 'queued', '{}', '7 days', i, 5, now(), now(), now() + interval '1 hour'
		  from generate_series(1, $1) i`, n)
	if columns != "" {
		f.exec(`update txonce.job set ` + columns + ` where created_at = (select max(created_at) from txonce.job)`)
	}
}

// TestSweep_J02_TwoAtOnceRingOnce: while one has looked and not committed, and when all of them look at the same time.
func TestSweep_J02_TwoAtOnceRingOnce(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, still(), d)
	f.fill(50, `check_at = now() - interval '1 s', bell = null`)
	first, second := f.Runner, f.another(still(), d)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if err := first.lookAfter(t.Context(), tx, toolcall.StateQueued); err != nil {
		t.Fatal(err)
	}
	f.sweeps(second)
	if n := get[int](f, `select count(*)::int from txonce_river.river_job`); n != 0 {
		t.Errorf("the second has rung %d", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.sweeps(second)
	if n := get[int](f, `select count(*)::int from txonce_river.river_job`); n != 50 {
		t.Errorf("%d doorbells hang, want 50", n)
	}
	f.exec(`truncate txonce_river.river_job`)
	f.exec(`update txonce.job set check_at = now() - interval '1 s'`)
	done := make(chan error)
	for _, r := range []*Runner{first, second, f.another(still(), d), f.another(still(), d)} {
		go func() { done <- r.sweep(t.Context()) }()
	}
	for range 4 {
		if err := receive(f, "a sweep", done); err != nil {
			t.Error(err)
		}
	}
	f.sweeps(first)
	if n := get[int](f, `select count(*)::int from txonce_river.river_job`); n != 50 {
		t.Errorf("%d doorbells hang, want 50", n)
	}
}

// TestSweep_J04_BacklogDoesNotDelayTheRescueOfADeadWorkersJob: ten thousand jobs wait, all are to be looked at, and have been for
// longer.
func TestSweep_J04_BacklogDoesNotDelayTheRescueOfADeadWorkersJob(t *testing.T) {
	t.Parallel()
	const backlog = 10_000
	d, visits := stepwise(t, "plain", nil)
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	ring(f, f.Runner, d, id)
	begun(f, visits)
	f.lapse(id)
	f.longAgo(id)
	f.fill(backlog, `check_at = now() - interval '1 hour'`)
	f.exec(`insert into txonce_river.river_job (id, args, kind, max_attempts, priority, queue, scheduled_at, state)
		select i + 1000, jsonb_build_object('job', i), 'plain', 5, 1, 'default', now(), 'available' from generate_series(1, $1) i`, backlog)
	f.exec(`update txonce.job set bell = bell + 1000 where state = 'queued'`)
	f.sweeps(f.Runner)
	if n := f.doorbells(id); n != 2 {
		t.Errorf("behind one sweep, the dead worker's job has %d doorbells, want a second one", n)
	}
	for range (backlog + sweepBatch - 1) / sweepBatch {
		f.sweeps(f.Runner)
	}
	if due, bells := get[int](f, `select count(*)::int from txonce.job where check_at <= now()`), get[int](f, `select count(*)::int from txonce_river.river_job`); due != 0 || bells != backlog+2 {
		t.Errorf("%d jobs are still to be looked at, there are %d doorbells; want 0, %d", due, bells, backlog+2)
	}
}

// TestSweep_J04_WhatIsDueIsLookedAtInTime: when a job begins, is renewed, fails, waits for its time or its deadline.
func TestSweep_J04_WhatIsDueIsLookedAtInTime(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", &Options{Backoff: func(int) time.Duration { return 10 * time.Minute }})
	f := setup(t, &Config{Lease: time.Minute, Sweep: time.Hour}, d)
	minutes := func(id toolcall.ID) float64 {
		return get[float64](f, `select round(extract(epoch from check_at - clock_timestamp()) / 60)::float8 from txonce.job where id = $1`, uuidOf(id))
	}
	check := func(what string, id toolcall.ID, want float64) {
		t.Helper()
		if got := minutes(id); got != want {
			t.Errorf("%s: it is looked at in %v minutes, want %v", what, got, want)
		}
	}
	now := time.Now()
	id := submit(f, d, in{}, nil)
	check("submitted", id, 1)
	check("for later", submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: now.Add(time.Hour)}), 61)
	check("with a deadline", submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: now.Add(time.Hour), Deadline: now.Add(time.Hour + 20*time.Second)}), 60)
	ctx, stop := context.WithCancel(t.Context())
	bell := ringIn(ctx, f.Runner, d, id)
	v := begun(f, visits)
	check("begun", id, 1)
	f.exec(`update txonce.job set lease_until = now() + interval '3 min', check_at = now() where id = $1`, uuidOf(id))
	f.sweeps(f.Runner)
	check("renewed", id, 3)
	stop()
	receive(f, "the end of the context", v.ctx.Done())
	v.computes(ErrStopping)
	receive(f, "the doorbell", bell)
	check("handed back", id, 1)
	bell = ring(f, f.Runner, d, id)
	begun(f, visits).computes(fmt.Errorf("no luck"))
	receive(f, "the doorbell", bell)
	check("failed", id, 11)
	f.due(id)
	f.sweeps(f.Runner)
	check("looked at too early", id, 11)
	f.exec(`update txonce.job set deadline = now() + interval '4 min' where id = $1`, uuidOf(id))
	f.due(id)
	f.sweeps(f.Runner)
	check("looked at too early, with a deadline", id, 4)
	f.exec(`update txonce.job set deadline = null, run_at = now() where id = $1`, uuidOf(id))
	f.due(id)
	f.sweeps(f.Runner)
	check("its doorbell hangs", id, 1)
	f.exec(`update txonce.job set run_at = now() - interval '8 min' where id = $1`, uuidOf(id))
	f.due(id)
	f.sweeps(f.Runner)
	check("its doorbell hangs for long", id, 4)
	f.exec(`update txonce.job set run_at = now() - interval '8 h' where id = $1`, uuidOf(id))
	f.due(id)
	f.sweeps(f.Runner)
	check("its doorbell hangs for very long", id, 5)
	f.sets(id, `state = 'running', attempt = 1, attempted_at = now() - interval '20 s'`)
	f.due(id)
	f.sweeps(f.Runner)
	if left := get[float64](f, `select extract(epoch from check_at - clock_timestamp())::float8 from txonce.job where id = $1`, uuidOf(id)); left > 40 || left < -60 {
		t.Errorf("its doorbell was fetched: it is looked at in %v s, want 40", left)
	}
	f.exec(`truncate txonce_river.river_job`)
	f.due(id)
	f.sweeps(f.Runner)
	check("rung", id, 1)
}

// TestSweep_J07_DeadlineOfJobsThatNobodyWorks: they end, once their time is over.
func TestSweep_J07_DeadlineOfJobsThatNobodyWorks(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, still(), d)
	deadline := &SubmitOpts{Scope: scope, Deadline: time.Now().Add(time.Hour)}
	waits, runs, dead := submit(f, d, in{}, deadline), submit(f, d, in{}, deadline), submit(f, d, in{}, deadline)
	bell := ring(f, f.Runner, d, runs)
	running := begun(f, visits)
	ring(f, f.Runner, d, dead)
	begun(f, visits)
	f.lapse(dead)
	f.exec(`update txonce.job set deadline = now(), check_at = now()`)
	f.hears("a doorbell that comes too late", ring(f, f.Runner, d, waits), isSnooze)
	f.sweeps(f.Runner)
	state := func(id toolcall.ID) string {
		return get[string](f, `select state from txonce.job where id = $1`, uuidOf(id))
	}
	if state(waits) != "failed" || state(runs) != "running" || state(dead) != "failed" {
		t.Errorf("they are %s, %s, %s; want failed, running, failed", state(waits), state(runs), state(dead))
	}
	running.computes(nil)
	f.hears("the doorbell", bell, isCancel)
	for id, attempts := range map[toolcall.ID]int{waits: 0, runs: 1, dead: 1} {
		f.ended(id, toolcall.StateFailed, attempts, CodeDeadline)
	}
	nobody(f, visits)
	f.effectsBy(map[string][]string{})
}

// TestSweep_J09_OtherKindsAreOthers: who does not know a kind could not hang its doorbell.
func TestSweep_J09_OtherKindsAreOthers(t *testing.T) {
	t.Parallel()
	f := setup(t, still(), plainly("other", nil))
	f.fill(3, `check_at = now() - interval '1 s', bell = null`)
	f.sweeps(f.Runner)
	if n := get[int](f, `select count(*)::int from txonce.job where check_at > now() or bell is not null`); n != 0 {
		t.Errorf("%d jobs were looked at", n)
	}
	f.sweeps(f.another(still(), plainly("plain", nil)))
	if n := get[int](f, `select count(*)::int from txonce.job where check_at > now() and bell is not null`); n != 3 {
		t.Errorf("%d jobs were looked at", n)
	}
}

// TestSweep_J08_LooksAtNothingBeforeItsTime: what waits costs the sweeper nothing.
func TestSweep_J08_LooksAtNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	f := setup(t, still(), plainly("plain", nil))
	f.fill(3, `bell = null`)
	f.fill(3, `bell = null, state = 'running'`)
	f.fill(3, `bell = null, state = 'succeeded', finished_at = now(), check_at = now()`)
	f.sweeps(f.Runner)
	if n := get[int](f, `select count(*)::int from txonce_river.river_job`); n != 0 {
		t.Errorf("%d doorbells hang", n)
	}
}

// TestSweep_J04_FetchedDoorbellIsDoubtedByTheClockOfTheDatabase and not by ours, which may go before it or behind.
func TestSweep_J04_FetchedDoorbellIsDoubtedByTheClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	r := &Runner{cfg: Config{Lease: 8 * time.Second}}
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		now := time.Now().Add(skew)
		for ago, want := range map[time.Duration]time.Duration{0: 8 * time.Second, 5 * time.Second: 3 * time.Second, 8 * time.Second: 0, time.Hour: 0} {
			at := now.Add(-ago)
			if got := r.hangs(&rivertype.JobRow{State: rivertype.JobStateRunning, AttemptedAt: &at}, time.Hour, now); got != want {
				t.Errorf("fetched %v ago: %v, want %v", ago, got, want)
			}
		}
	}
}

// TestSweep_I8_DoorbellForAClockThatIsAheadDoesNotHang: River notes pauses by the clock of the worker, and of a short one it says
// at once that it is over, but looks at the time all the same.
func TestSweep_I8_DoorbellForAClockThatIsAheadDoesNotHang(t *testing.T) {
	t.Parallel()
	r := &Runner{cfg: Config{Lease: 8 * time.Second}}
	now := time.Now()
	for ahead, want := range map[time.Duration]time.Duration{-time.Hour: 8 * time.Second, time.Second: 8 * time.Second, time.Hour: 0} {
		at := now.Add(ahead)
		if got := r.hangs(&rivertype.JobRow{State: rivertype.JobStateAvailable, ScheduledAt: at}, 0, now); got != want {
			t.Errorf("available in %v: %v, want %v", ahead, got, want)
		}
	}
}

// TestSweep_J08_TakesWhatHasExpiredAndNothingElse.
func TestSweep_J08_TakesWhatHasExpiredAndNothingElse(t *testing.T) {
	t.Parallel()
	f := setup(t, still(), plainly("plain", nil))
	f.fill(1300, `state = 'succeeded', finished_at = now(), expires_at = now() - interval '1 s'`)
	f.fill(2, `state = 'succeeded', finished_at = now(), expires_at = now() + interval '1 h'`)
	f.fill(3, ``)
	if err := f.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := get[int](f, `select count(*)::int from txonce.job`); n != 5 {
		t.Errorf("%d jobs are left, want 5", n)
	}
}

type plan struct {
	sql  string
	args []string
}

// plans are the statements that look for rows, with arguments of each kind.
func plans(q queries) map[string]plan {
	id, token := `'0190f3c4-8e2a-7b1d-9c3e-5f6a7b8c9d0e'`, `'0190f3c4-8e2a-4b1d-9c3e-5f6a7b8c9d0e'`
	set := `array[` + id + `,` + id + `]`
	return map[string]plan{
		"begin":      {q.begin, []string{id, token, `8`, `'plain'`}},
		"look":       {q.look, []string{id}},
		"beat":       {q.beat, []string{set, set, `8`, `array[0.5,null]::text[]`, `array['a','b']`}},
		"lock":       {q.lock, []string{id, token}},
		"done":       {q.done, []string{id, `''`}},
		"let":        {q.let, []string{id}},
		"settled":    {q.settled, []string{id}},
		"retry":      {q.retry, []string{id, token, `0`, `''`, `1`, `1`}},
		"end":        {q.end, []string{id, token, `'failed'`, `''`, `''`}},
		"status":     {q.status, []string{set, `array['alice','bob']`}},
		"cancelLook": {q.cancelLook, []string{id, `'alice'`}},
		"cancelAsk":  {q.cancelAsk, []string{id}},
		"cancelEnd":  {q.cancelEnd, []string{id}},
		"due":        {q.due, []string{`'queued'`, `array['plain']`, `500`}},
		"dueRunning": {q.due, []string{`'running'`, `array['plain']`, `500`}},
		"dueOne":     {q.dueOne, []string{id, `array['plain']`}},
		"check":      {q.check, []string{id, `8`, `true`}},
		"ring":       {q.ring, []string{id, `1`, `8`}},
		"endDue":     {q.endDue, []string{id, `'failed'`, `''`, `''`}},
		"expire":     {q.expire, []string{`500`}},
		"orphans":    {q.orphans, []string{`500`}},
	}
}

// TestQueries_J08_AreIndexed: no statement reads a table of a hundred thousand jobs and as many records, whatever Postgres knows
// of the arguments, and whether its statistics are new or from when there were few rows.
func TestQueries_J08_AreIndexed(t *testing.T) {
	t.Parallel()
	dbtest.SkipPooled(t, "it prepares statements")
	f := setup(t, still(), plainly("plain", nil))
	grow := func(n int) {
		f.fill(n/2, ``)
		f.fill(n/2-n/100, `state = 'succeeded', finished_at = now(), expires_at = now() + interval '1 day', check_at = now()`)
		f.fill(n/100, `state = 'running', lease_until = now(), attempt = gen_random_uuid()`)
		f.exec(`insert into txonce.call (id, scope, tool, key, fingerprint, canon, state, attempt, answer, started_at, finished_at, expires_at)
			select gen_random_uuid(), 'alice', 'tool', i::text, '', 1, 'succeeded', gen_random_uuid(), '{}', now(), now(), case when i % 100 > 0 then now() end
			from generate_series(1, $1) i`, n)
		f.exec(`update txonce.job j set call = c.id from (select id, row_number() over () n from txonce.call) c, (select id, row_number() over () n from txonce.job) o
			where o.id = j.id and o.n = c.n and o.n % 10 = 0`)
	}
	conn, err := f.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	f.exec(`alter table txonce.job set (autovacuum_enabled = false)`)
	f.exec(`alter table txonce.call set (autovacuum_enabled = false)`)
	grow(1000)
	f.exec(`analyze txonce.job, txonce.call`)
	grow(100_000)
	for _, statistics := range []string{"old", "new"} {
		if statistics == "new" {
			f.exec(`analyze txonce.job, txonce.call`)
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			for name, p := range plans(f.sql) {
				if plan := explain1(t, conn.Conn(), mode, p.sql, p.args); seqScan.MatchString(plan) {
					t.Errorf("%s, %s, statistics are %s:\n%s", name, mode, statistics, plan)
				}
			}
		}
	}
}

var seqScan = regexp.MustCompile(`Seq Scan on (job|call)\b`)

func explain1(t *testing.T, conn *pgx.Conn, mode, sql string, args []string) string {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), `begin; select set_config('txonce.attempt', gen_random_uuid()::text, true); set local plan_cache_mode = `+mode+
		`; prepare p as `+sql+`; explain execute p(`+strings.Join(args, ", ")+`); rollback; deallocate p`).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var plan strings.Builder
	for _, row := range results[4].Rows {
		plan.Write(append(row[0], '\n'))
	}
	return plan.String()
}

// TestQueries_J08_AllArePlanned: a new one is to be looked at as well.
func TestQueries_J08_AllArePlanned(t *testing.T) {
	t.Parallel()
	q := queriesFor("txonce")
	known := map[string]bool{q.submit: true, q.open: true, q.restore: true} // they look for nothing
	for _, p := range plans(q) {
		known[p.sql] = true
	}
	fields := reflect.ValueOf(q)
	for i := range fields.NumField() {
		if !known[fields.Field(i).String()] {
			t.Errorf("queries.%s is not among those whose plans are looked at", fields.Type().Field(i).Name)
		}
	}
}
