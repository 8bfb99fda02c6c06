package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
)

// TestStatus_J01_NobodyElsesJobs: what another scope has looks like what nobody has, to the letter.
func TestStatus_J01_NobodyElsesJobs(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{}, nil)
	var unknown toolcall.ID
	copy(unknown[:], id[:])
	unknown[15]++
	expired := submit(f, d, in{}, nil)
	f.mustCancel(expired, toolcall.StateCancelled)
	f.exec(`update txonce.job set expires_at = clock_timestamp() where id = $1::uuid`, uuidOf(expired))
	call := toolcall.NewID(scope, tool, "x:k")
	for label, ask := range map[string]toolcall.Ask{
		"foreign": {Scope: "bob", ID: id}, "unknown": {Scope: scope, ID: unknown}, "expired": {Scope: scope, ID: expired}, "a call's": {Scope: scope, ID: call},
		"zero": {Scope: scope}, "no scope": {ID: id}, "a long scope": {Scope: strings.Repeat("x", 256), ID: id}, "no text": {Scope: "\xff", ID: id},
		"a zero byte": {Scope: "alice\x00", ID: id}, "other letters": {Scope: "Alice", ID: id}, "a space": {Scope: "alice ", ID: id},
	} {
		s, err := f.Status(t.Context(), ask.Scope, ask.ID)
		if !errors.Is(err, ErrNotFound) || err.Error() != ErrNotFound.Error() || s.Job != nil {
			t.Errorf("%s: %+v, %v; want ErrNotFound", label, s, err)
		}
		s, err = f.Cancel(t.Context(), ask.Scope, ask.ID)
		if !errors.Is(err, ErrNotFound) || err.Error() != ErrNotFound.Error() || s.Job != nil {
			t.Errorf("Cancel, %s: %+v, %v; want ErrNotFound", label, s, err)
		}
		all, err := f.Statuses(t.Context(), []toolcall.Ask{ask})
		if diff := cmp.Diff([]toolcall.Status{{ID: ask.ID, State: toolcall.StateNone}}, all); err != nil || diff != "" {
			t.Errorf("Statuses, %s: %v, %s", label, err, diff)
		}
	}
	if s := f.status(id); s.State != toolcall.StateQueued || s.Job.CancelRequested {
		t.Errorf("%+v, %+v", s, s.Job)
	}
}

// TestStatus_J01_ManyAtOnce come in the order of the asks, as often as they are asked for.
func TestStatus_J01_ManyAtOnce(t *testing.T) {
	t.Parallel()
	d, bad := plainly("report", nil), Define("bad", worksThen(Fail("no", "not this one")), nil)
	f := setup(t, nil, d, bad)
	f.start(f.Runner)
	good := submit(f, d, in{Label: "x"}, nil)
	failed := submit(f, bad, in{}, nil)
	bobs := submit(f, d, in{Label: "x"}, &SubmitOpts{Scope: "bob", RunAt: time.Now().Add(time.Hour)})
	dropped := submit(f, d, in{}, &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour)})
	f.await(good, toolcall.StateSucceeded)
	f.await(failed, toolcall.StateFailed)
	f.cancelBell(dropped)
	asks := []toolcall.Ask{
		{Scope: scope, ID: failed}, {Scope: "bob", ID: bobs}, {Scope: scope, ID: bobs}, {Scope: scope, ID: dropped}, {Scope: scope, ID: good}, {Scope: scope, ID: failed},
	}
	got, err := f.Statuses(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	var states []toolcall.State
	for i, s := range got {
		states = append(states, s.State)
		if s.ID != asks[i].ID {
			t.Errorf("%d: it is %s, want %s", i, s.ID, asks[i].ID)
		}
	}
	if diff := cmp.Diff([]toolcall.State{toolcall.StateFailed, toolcall.StateQueued, toolcall.StateNone, toolcall.StateCancelled, toolcall.StateSucceeded, toolcall.StateFailed}, states); diff != "" {
		t.Error(diff)
	}
	if none, err := f.Statuses(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("of none: %v, %v", none, err)
	}
}

// TestStatus_Q03_IsAReadOrTwo: of what has ended or runs, one round trip, and two of what waits.
func TestStatus_Q03_IsAReadOrTwo(t *testing.T) {
	t.Parallel()
	w := &turns{}
	d := plainly("report", &Options{Queue: idle})
	f := setupOn(t, func(cfg *pgxpool.Config) { w.watch(cfg) }, unhurried(), d)
	waiting, running, ended := submit(f, d, in{}, nil), submit(f, d, in{}, nil), submit(f, d, in{}, nil)
	f.exec(`update txonce.job set state = 'running', attempt = gen_random_uuid(), attempts = 1, lease_until = clock_timestamp() + interval '1 h' where id = $1::uuid`, uuidOf(running))
	f.mustCancel(ended, toolcall.StateCancelled)
	for _, c := range []struct {
		ids  []toolcall.ID
		want int
	}{{[]toolcall.ID{ended}, 1}, {[]toolcall.ID{running}, 1}, {[]toolcall.ID{waiting}, 2}, {[]toolcall.ID{ended, running, waiting}, 2}} {
		var asks []toolcall.Ask
		for _, id := range c.ids {
			asks = append(asks, toolcall.Ask{Scope: scope, ID: id})
		}
		for i := range 2 { // the first one may describe
			w.take()
			if _, err := f.Statuses(t.Context(), asks); err != nil {
				t.Fatal(err)
			}
			if turns := w.take(); i == 1 && len(turns) != c.want {
				t.Errorf("%d jobs: %d round trips, want %d: %v", len(asks), len(turns), c.want, turns)
			}
		}
	}
}

// TestStatus_J07_EndsWhatIsOver without our code, whoever asks first.
func TestStatus_J07_EndsWhatIsOver(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle, MaxAttempts: 2})
	f := setup(t, unhurried(), d)
	const dead = `update txonce.job set state = 'running', attempt = gen_random_uuid(), attempts = %, lease_until = clock_timestamp() - interval '1 s', started_at = now()`
	dies := func(attempts string) string { return strings.ReplaceAll(dead, "%", attempts) }
	for label, c := range map[string]struct {
		sql   string
		state toolcall.State
		code  string
	}{
		"waits":                                {`select 1`, toolcall.StateQueued, ""},
		"the deadline has passed":              {`update txonce.job set deadline = clock_timestamp()`, toolcall.StateFailed, CodeDeadline},
		"a dead attempt":                       {dies("1"), toolcall.StateRunning, ""},
		"a dead last attempt":                  {dies("2"), toolcall.StateFailed, CodeAttemptsExhausted},
		"a dead attempt, cancelled":            {dies("1") + `, cancel_at = now()`, toolcall.StateCancelled, ""},
		"a dead last attempt, cancelled":       {dies("2") + `, cancel_at = now()`, toolcall.StateCancelled, ""},
		"a dead attempt, overdue":              {dies("1") + `, deadline = now()`, toolcall.StateFailed, CodeDeadline},
		"a live attempt, overdue":              {`update txonce.job set state = 'running', attempt = gen_random_uuid(), attempts = 2, deadline = now(), lease_until = now() + interval '1 h'`, toolcall.StateRunning, ""},
		"the doorbell is gone":                 {`delete from txonce_river.river_job`, toolcall.StateQueued, ""},
		"the doorbell is discarded":            {`update txonce_river.river_job set state = 'discarded', finalized_at = now()`, toolcall.StateQueued, ""},
		"the doorbell was cancelled":           {`update txonce_river.river_job set state = 'cancelled', finalized_at = now()`, toolcall.StateCancelled, ""},
		"the doorbell was cancelled, overdue":  {`with b as (update txonce_river.river_job set state = 'cancelled', finalized_at = now()) update txonce.job set deadline = now()`, toolcall.StateCancelled, ""},
		"the doorbell was cancelled, and dead": {`with b as (update txonce_river.river_job set state = 'cancelled', finalized_at = now()) ` + dies("1"), toolcall.StateCancelled, ""},
	} {
		id := submit(f, d, in{}, nil)
		f.exec(c.sql)
		s := f.status(id)
		if s.State != c.state || c.code != "" && (s.Failure == nil || s.Failure.Code != c.code) {
			t.Errorf("%s: %+v, %+v; want %s %s", label, s, s.Job, c.state, c.code)
		}
		f.exec(`delete from txonce.job`)
	}
}

// TestStatus_J09_DelaysNobody, and waits for nobody.
func TestStatus_J09_DelaysNobody(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{}, nil)
	tx, err := f.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `select from txonce.job for update`); err != nil {
		t.Fatal(err)
	}
	if s := f.status(id); s.State != toolcall.StateQueued {
		t.Errorf("while the row is locked: %+v", s)
	}
	f.exec(`update txonce_river.river_job set state = 'cancelled', finalized_at = now()`)
	if s := f.status(id); s.State != toolcall.StateQueued {
		t.Errorf("while the row is locked, and it is over: %+v", s)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.await(id, toolcall.StateCancelled)
}

// TestStatus_ErrorsOfTheDatabase say which of the things it may be.
func TestStatus_ErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	d := plainly("report", nil)
	for label, c := range map[string]struct {
		sql  string
		want error
	}{
		"not migrated":        {`alter table txonce.job rename to other`, ErrNotMigrated},
		"another shape":       {`alter table txonce.job drop column scope cascade`, ErrNotMigrated},
		"no privilege":        {`revoke select, insert on txonce.job from current_user`, ErrPermission},
		"no River":            {`drop schema txonce_river cascade`, ErrNotMigrated},
		"no privilege, River": {`revoke select, insert on all tables in schema txonce_river from current_user`, ErrPermission},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := setup(t, unhurried(), d)
			id := submit(f, d, in{}, nil)
			f.exec(c.sql)
			if _, err := f.Status(t.Context(), scope, id); !errors.Is(err, c.want) {
				t.Errorf("Status: %v, want %v", err, c.want)
			}
			if _, err := f.Cancel(t.Context(), scope, id); !errors.Is(err, c.want) {
				t.Errorf("Cancel: %v, want %v", err, c.want)
			}
			if _, err := trySubmit(f, d, in{}, nil); !errors.Is(err, c.want) {
				t.Errorf("SubmitTx: %v, want %v", err, c.want)
			}
		})
	}
	f := setup(t, unhurried(), d)
	id := submit(f, d, in{}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the caller has left")
	cancel(left)
	if _, err := f.Status(ctx, scope, id); !errors.Is(err, left) || errors.Is(err, ErrUnavailable) {
		t.Errorf("a cancelled context: %v", err)
	}
	_ = pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := d.SubmitTx(ctx, tx, f.Runner, in{}, &SubmitOpts{Scope: scope}); !errors.Is(err, left) {
			t.Errorf("SubmitTx with a cancelled context: %v", err)
		}
		return left
	})
	f.pool.Close()
	if _, err := f.Status(t.Context(), scope, id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a closed pool: %v", err)
	}
}
