package versions

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestCore_R01_R05_OnEachVersion is a tour: each way to make a call, four times at once and once more, a job and a message, and what
// the status says of them.
func TestCore_R01_R05_OnEachVersion(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		t.Logf("on PostgreSQL %s, %s", server(t, place).Version(), place)
		db := fresh(t, place)
		if err := migrations.Up(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		do(t, db, sqlTable)
		a := newApp(t, db)
		a.run()
		for _, tool := range tools() {
			t.Run(tool, func(t *testing.T) { a.tour(t, tool) })
		}
	})
}

// tour makes one call.
func (a *app) tour(t *testing.T, tool string) {
	const key = "k"
	status, err := a.store.Status(t.Context(), request(tool, key))
	if err != nil || status.State != toolcall.StateNone {
		t.Errorf("before the call, its status is %+v, %v", status, err)
	}
	var all sync.WaitGroup
	answers := make([]answer, 4)
	for i := range answers {
		all.Go(func() {
			var err error
			for answers[i], err = a.call(t.Context(), tool, key); errors.Is(err, txidem.ErrInProgress); answers[i], err = a.call(t.Context(), tool, key) {
				time.Sleep(10 * time.Millisecond) // a leased call is not waited for
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ran, first := 0, answers[0]
	for _, got := range answers {
		if !got.Replayed {
			ran++
		}
		if got.Raw != first.Raw || got.Failure != first.Failure {
			t.Errorf("%+v and %+v are answers of one call", first, got)
		}
	}
	if ran != 1 {
		t.Errorf("it ran %d times", ran)
	}
	a.replays(tool, key, first)

	want, effects := toolcall.StateSucceeded, 1
	if tool == toolRefuse {
		want, effects = toolcall.StateFailed, 0
	}
	a.effects(tool+" "+key, effects)
	if status, err := a.store.Status(t.Context(), request(tool, key)); err != nil || status.State != want || want == toolcall.StateSucceeded && string(status.Answer) != first.Raw {
		t.Errorf("behind the call, its status is %+v, %v", status, err)
	}
	switch tool {
	case toolJob:
		a.worked(first, key)
	case toolMessage:
		a.delivered(first, key)
	}
}
