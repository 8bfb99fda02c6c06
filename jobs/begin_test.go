package jobs

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

// TestBegin_J02_TurnsDoorbellsAway: a doorbell that rings for nothing begins no attempt, is taken down where the job has ended
// or will never be there, and stays everywhere else.
func TestBegin_J02_TurnsDoorbellsAway(t *testing.T) {
	t.Parallel()
	d, other := plainly("plain", nil), plainly("other", nil)
	f := setup(t, nil, d, other)
	const (
		down  = "down"
		stays = "stays"
		gone  = "gone"
	)
	for label, c := range map[string]struct{ sql, want string }{
		"it has ended":               {`state = 'succeeded', finished_at = now()`, down},
		"another attempt has it":     {`state = 'running', attempt = gen_random_uuid(), attempts = 1, lease_until = now() + interval '1 hour'`, stays},
		"it is to be cancelled":      {`cancel_at = now()`, stays},
		"its deadline has passed":    {`deadline = now()`, stays},
		"no attempt is left":         {`state = 'running', attempt = gen_random_uuid(), attempts = max_attempts, lease_until = now()`, stays},
		"its time has not come":      {`run_at = now() + interval '1 hour'`, stays},
		"it is of another kind":      {`kind = 'other'`, gone},
		"it is not there any more":   {`id = gen_random_uuid()`, down},
		"a dead worker left it":      {`state = 'running', attempt = gen_random_uuid(), attempts = 1, lease_until = now()`, ""},
		"nothing is the matter":      {`state = 'queued'`, ""},
		"it rings early for a pause": {`attempts = 1, run_at = now() + interval '1 hour'`, ""},
	} {
		id := submit(f, d, in{Label: "a"}, nil)
		f.exec(`update txonce.job set `+c.sql+` where id = $1`, uuidOf(id))
		a, err := f.begin(t.Context(), d.def, id)
		got := ""
		switch {
		case a == nil && err == nil:
			got = down
		case errors.As(err, new(*river.JobSnoozeError)):
			got = stays
		case errors.Is(err, ErrNotFound) && errors.As(err, new(*river.JobCancelError)):
			got = gone
		case err != nil:
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, %v, want %q", label, got, err, c.want)
		}
		if c.want == "" && (a == nil || string(a.args) != `{"label":"a"}` || a.scope != scope || a.number < 1 || a.max != 5 || a.submittedAt.IsZero()) {
			t.Errorf("%s: the attempt is %+v", label, a)
		}
	}
}

// TestBegin_J02_WaitsForNoCommit: while somebody holds the job's row, who is about to commit it, a doorbell is put off.
func TestBegin_J02_WaitsForNoCommit(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, nil, d)
	id := submit(f, d, in{Label: "a"}, nil)
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `select from txonce.job where id = $1 for update`, uuidOf(id)); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := f.begin(t.Context(), d.def, id)
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.As(err, new(*river.JobSnoozeError)) {
				t.Errorf("got %v, want a snooze", err)
			}
		case <-time.After(time.Minute):
			t.Error("it waits for the row")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if a, err := f.begin(t.Context(), d.def, id); err != nil || a == nil {
		t.Errorf("when the row is free: %v, %v", a, err)
	}
}

// TestAnswer_J03_CostsFourRoundTrips: one that begins the attempt, and a transaction's three around the statement of the commit
// function.
func TestAnswer_J03_CostsFourRoundTrips(t *testing.T) {
	t.Parallel()
	w := &turns{}
	d := plainly("plain", nil)
	f := setupOn(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1; w.watch(cfg) }, unhurried(), d)
	for i := range 3 { // the first ones describe the statements
		id := submit(f, d, in{Label: "a"}, nil)
		w.take()
		if err := f.answer(t.Context(), d.def, id); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, turn := range w.take() {
			if !turn.Has("unnest") { // else it renews leases, over a connection of its own
				n++
			}
		}
		if i == 2 && n != 4 {
			t.Errorf("%d round trips, want 4", n)
		}
	}
	f.effectsAre(map[string]int{"a": 3})
}
