package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// bell is River's row of the job, the latest.
func (f *fixture) bell(id toolcall.ID) int64 {
	f.t.Helper()
	return get[int64](f, `select bell from txonce.job where id = $1`, uuidOf(id))
}

// sets makes River's row of the job what it should not be.
func (f *fixture) sets(id toolcall.ID, sql string) {
	f.t.Helper()
	f.exec(`update txonce_river.river_job set `+sql+` where id = $1`, f.bell(id))
}

// behindOurBack is what may become of a doorbell in the queue, and what becomes of a job that waits for it.
var behindOurBack = map[string]struct {
	does func(f *fixture, id toolcall.ID)
	want string // rung, left, cancelled
}{
	"nothing": {func(*fixture, toolcall.ID) {}, "left"},
	"deleted": {func(f *fixture, id toolcall.ID) {
		if _, err := f.client.Load().JobDelete(f.t.Context(), f.bell(id)); err != nil {
			f.t.Fatal(err)
		}
	}, "rung"},
	"the table is emptied": {func(f *fixture, _ toolcall.ID) { f.exec(`truncate txonce_river.river_job`) }, "rung"},
	"cancelled": {func(f *fixture, id toolcall.ID) {
		if _, err := f.client.Load().JobCancel(f.t.Context(), f.bell(id)); err != nil {
			f.t.Fatal(err)
		}
	}, "cancelled"},
	"cancelled while a worker had it that is gone": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'running', attempt = 1, attempted_at = now() - interval '1 day'`)
		if _, err := f.client.Load().JobCancel(f.t.Context(), f.bell(id)); err != nil {
			f.t.Fatal(err)
		}
	}, "cancelled"},
	"cancelled and asked for again": {func(f *fixture, id toolcall.ID) {
		_, err := f.client.Load().JobCancel(f.t.Context(), f.bell(id))
		_, err2 := f.client.Load().JobRetry(f.t.Context(), f.bell(id))
		if err := errors.Join(err, err2); err != nil {
			f.t.Fatal(err)
		}
	}, "left"},
	"discarded": {func(f *fixture, id toolcall.ID) { f.sets(id, `state = 'discarded', finalized_at = now()`) }, "rung"},
	"completed": {func(f *fixture, id toolcall.ID) { f.sets(id, `state = 'completed', finalized_at = now()`) }, "rung"},
	"snoozed far away": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'scheduled', scheduled_at = now() + interval '1 day'`)
	}, "rung"},
	"snoozed": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'scheduled', scheduled_at = now() + interval '1 s'`)
	}, "left"},
	"far from a retry": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'retryable', scheduled_at = now() + interval '1 day'`)
	}, "rung"},
	"overdue for long": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'retryable', scheduled_at = now() - interval '1 h'`)
	}, "rung"},
	"fetched": {func(f *fixture, id toolcall.ID) { f.sets(id, `state = 'running', attempt = 1, attempted_at = now()`) }, "left"},
	"fetched and lost": {func(f *fixture, id toolcall.ID) {
		f.sets(id, `state = 'running', attempt = 1, attempted_at = now() - interval '1 h'`)
	}, "rung"},
	"fetched by nobody": {func(f *fixture, id toolcall.ID) { f.sets(id, `state = 'running', attempt = 1, attempted_at = null`) }, "rung"},
	"pending":           {func(f *fixture, id toolcall.ID) { f.sets(id, `state = 'pending'`) }, "left"},
}

// TestRiver_J07_J08_DoorbellsAreChangedBehindOurBack: by River's UI, by its own housekeeping, by hand. The sweeper sets right what
// happened, or whoever asks for the status. A job that was rung again is worked once.
func TestRiver_J07_J08_DoorbellsAreChangedBehindOurBack(t *testing.T) {
	t.Parallel()
	for label, c := range behindOurBack {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d := plainly("plain", nil)
			f := setup(t, nil, d)
			swept, asked := submit(f, d, in{Label: "swept"}, nil), submit(f, d, in{Label: "asked"}, nil)
			c.does(f, swept)
			c.does(f, asked)
			if s := f.status(asked); (s.State == toolcall.StateCancelled) != (c.want == "cancelled") {
				t.Errorf("who asks hears that the job is %s", s.State)
			}
			f.due(swept)
			f.sweeps(f.Runner)
			states := map[string]toolcall.State{"rung": toolcall.StateQueued, "left": toolcall.StateQueued, "cancelled": toolcall.StateCancelled}
			if state := toolcall.State(get[string](f, `select state from txonce.job where id = $1`, uuidOf(swept))); state != states[c.want] {
				t.Errorf("behind a sweep, the job is %s", state)
			}
			fresh := get[bool](f, `select coalesce(bool_or(state = 'available' and attempt = 0), false) from txonce_river.river_job where id = $1`, f.bell(swept))
			if rung := fresh && label != "nothing" && label != "cancelled and asked for again"; rung != (c.want == "rung") {
				t.Errorf("it was rung again: %v", rung)
			}
			f.due(swept)
			f.sweeps(f.Runner)
			if n := f.doorbells(swept); n > 2 {
				t.Errorf("there are %d doorbells", n)
			}
			if c.want != "rung" {
				return
			}
			f.due(asked)
			f.start(f.Runner)
			for _, id := range []toolcall.ID{swept, asked} {
				f.await(id, toolcall.StateSucceeded)
				f.ended(id, toolcall.StateSucceeded, 1, "")
			}
			f.effectsAre(map[string]int{"swept": 1, "asked": 1})
		})
	}
}

// TestRiver_J07_CancelledInTheQueueWhileItRuns: the attempt is told, and ends the job as cancelled, whatever it returns.
func TestRiver_J07_CancelledInTheQueueWhileItRuns(t *testing.T) {
	t.Parallel()
	for label, end := range map[string]error{"with its cause": nil, "with an error": errors.New("interrupted"), "with success": nil} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d, visits := stepwise(t, "stepwise", nil)
			f := setup(t, patient(), d)
			f.start(f.Runner)
			id := submit(f, d, in{Label: "a"}, nil)
			v := begun(f, visits)
			if _, err := f.client.Load().JobCancel(t.Context(), f.bell(id)); err != nil {
				t.Fatal(err)
			}
			receive(f, "the end of the context", v.ctx.Done())
			cause := context.Cause(v.ctx)
			if !errors.Is(cause, ErrCancelled) {
				t.Errorf("its cause is %v", cause)
			}
			if label == "with its cause" {
				end = cause
			}
			v.computes(end)
			f.await(id, toolcall.StateCancelled)
			f.ended(id, toolcall.StateCancelled, 1, "")
			f.effectsAre(map[string]int{})
		})
	}
}

// TestRiver_J07_CancelledInTheQueueWhileItCommits: it is too late then.
func TestRiver_J07_CancelledInTheQueueWhileItCommits(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, patient(), d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	v := begun(f, visits)
	v.enters(f)
	if _, err := f.client.Load().JobCancel(t.Context(), f.bell(id)); err != nil {
		t.Fatal(err)
	}
	receive(f, "the end of the context", v.ctx.Done())
	v.commits(nil)
	f.await(id, toolcall.StateSucceeded)
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestRiver_J02_RowOfARunningJobIsChanged: whatever River's row says by then, the job ends as its attempts do.
func TestRiver_J02_RowOfARunningJobIsChanged(t *testing.T) {
	t.Parallel()
	for label, sql := range map[string]string{
		"deleted":           ``,
		"completed":         `state = 'completed', finalized_at = now()`,
		"discarded":         `state = 'discarded', finalized_at = now()`,
		"rescued":           `state = 'available'`,
		"rescued for later": `state = 'retryable', scheduled_at = now() + interval '1 day'`,
	} {
		for _, fails := range []bool{false, true} {
			t.Run(strings.ReplaceAll(label, " ", "_")+map[bool]string{true: "_and_it_fails"}[fails], func(t *testing.T) {
				t.Parallel()
				d, visits := stepwise(t, "stepwise", &Options{Backoff: func(int) time.Duration { return 0 }})
				f := setup(t, patient(), d)
				f.start(f.Runner)
				id := submit(f, d, in{Label: "a"}, nil)
				v := begun(f, visits)
				if sql == "" {
					f.exec(`delete from txonce_river.river_job`)
				} else {
					f.sets(id, sql)
				}
				attempts := 1
				if fails {
					attempts = 2
					v.computes(errors.New("no luck"))
					f.eventually("the attempt has ended", func() bool {
						return get[int](f, `select count(*)::int from txonce.job where state = 'queued' or attempts = 2`) == 1
					})
					f.due(id)
					v = begun(f, visits)
				}
				v.goesOn(f)
				f.await(id, toolcall.StateSucceeded)
				f.ended(id, toolcall.StateSucceeded, attempts, "")
				f.effectsBy(map[string][]string{"a": {map[bool]string{false: "1", true: "2"}[fails]}})
			})
		}
	}
}

// TestRiver_J02_RetriedInTheQueue: a job that has ended is not worked again, and one that runs has no second attempt.
func TestRiver_J02_RetriedInTheQueue(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", nil)
	f := setup(t, patient(), d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	v := begun(f, visits)
	retry := func() *rivertype.JobRow {
		row, err := f.client.Load().JobRetry(t.Context(), f.bell(id))
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	if row := retry(); row.State != rivertype.JobStateRunning {
		t.Errorf("River has made it %s", row.State)
	}
	v.enters(f)
	retry()
	v.commits(nil)
	for range 3 {
		f.eventually("the doorbell is down", func() bool {
			row, err := f.client.Load().JobGet(t.Context(), f.bell(id))
			return err == nil && row.State == rivertype.JobStateCompleted
		})
		retry()
	}
	nobody(f, visits)
	f.ended(id, toolcall.StateSucceeded, 1, "")
	f.effectsBy(map[string][]string{"a": {"1"}})
}

// TestRiver_J02_DoorbellsOfNoJob: one whose job is gone, and one that rings for another kind. Neither stays, and no job is harmed.
func TestRiver_J02_DoorbellsOfNoJob(t *testing.T) {
	t.Parallel()
	d, other := plainly("plain", nil), plainly("other", nil)
	f := setup(t, nil, d, other)
	id := submit(f, d, in{Label: "a"}, &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour)})
	client := f.client.Load()
	var rows []*rivertype.JobInsertResult
	for _, b := range []bell{{Job: newID(), kind: "plain"}, {Job: id, kind: "other"}} {
		row, err := client.Insert(t.Context(), b, &river.InsertOpts{})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	f.start(f.Runner)
	for i, want := range []rivertype.JobState{rivertype.JobStateCompleted, rivertype.JobStateCancelled} {
		f.eventually("the doorbell is down", func() bool {
			got, err := client.JobGet(t.Context(), rows[i].Job.ID)
			return err == nil && got.State == want
		})
	}
	f.ended(id, toolcall.StateQueued, 0, "")
	f.effectsAre(map[string]int{})
}

// TestRiver_J06_ItsAttemptsAreNotOurs: River gives up, and the job goes on.
func TestRiver_J06_ItsAttemptsAreNotOurs(t *testing.T) {
	t.Parallel()
	d, visits := stepwise(t, "stepwise", &Options{MaxAttempts: 3, Backoff: func(int) time.Duration { return 0 }})
	f := setup(t, patient(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	f.sets(id, `max_attempts = 1`)
	f.start(f.Runner)
	begun(f, visits).computes(errors.New("no luck"))
	f.eventually("River has given up", func() bool {
		return get[bool](f, `select exists (select from txonce_river.river_job where state = 'discarded')`)
	})
	f.due(id)
	begun(f, visits).computes(errors.New("no luck"))
	begun(f, visits).goesOn(f)
	f.await(id, toolcall.StateSucceeded)
	f.ended(id, toolcall.StateSucceeded, 3, "")
	f.effectsBy(map[string][]string{"a": {"3"}})
}

// TestRiver_J10_RollBackTakesTheDoorbellToo: no job, no doorbell.
func TestRiver_J10_RollBackTakesTheDoorbellToo(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, nil, d)
	undone := errors.New("undone")
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := d.SubmitTx(t.Context(), tx, f.Runner, in{Label: "a"}, &SubmitOpts{Scope: scope}); err != nil {
			return err
		}
		return undone
	})
	if n := get[int](f, `select (select count(*) from txonce.job)::int + (select count(*) from txonce_river.river_job)::int`); n != 0 || !errors.Is(err, undone) {
		t.Errorf("%d rows are left, %v", n, err)
	}
}
