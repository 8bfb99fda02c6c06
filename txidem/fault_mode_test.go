package txidem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
)

// inEveryMode are the cuts that mean the same in each mode. The simple protocol has one message for the whole round trip.
var inEveryMode = []struct {
	aCut
	committed bool
}{
	{cutsBefore[0], false},
	{cutsBefore[1], false},
	{aCut{"half of it arrives", atFinish(func(b []byte) int { return len(b) / 2 }, faultconn.Cut)}, false},
	{cutsAfter[1], true},
	{cutsAfter[2], true},
	{cutsAfter[3], true},
}

// everyMode are pgx's ways to execute.
func everyMode() []pgx.QueryExecMode {
	return []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
}

// TestRun_R17_LivesOfACallInEveryMode makes a call, repeats it, lets its record expire, has it taken over, by an answer and
// by a failure, and asks for its status in between.
func TestRun_R17_LivesOfACallInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range everyMode() {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, mode)
			f, _, events := wired(t, nil, 2, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			for life, fails := range []bool{false, false, true, false} {
				f.live(events, life, fails)
				f.age("x:k")
			}
			f.clean()
		})
	}
}

// live makes a call twice and asks for its status. Where there was a life before it, this one takes its record over.
func (f *fixture) live(events *lastEvents, life int, fails bool) {
	f.t.Helper()
	answer, runs, want := name("answer", life), 0, toolcall.StateSucceeded
	if fails {
		want = toolcall.StateFailed
	}
	for again := range 2 {
		got, err := Run(f.t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			runs++
			if err := write(ctx, tx, answer); err != nil || !fails {
				return answer, err
			}
			return "", Fail("no", answer)
		})
		failure, failed := failureIn(err)
		told := got.Value
		if failed {
			told = failure.Message
		}
		if failed != fails || err != nil && !failed || told != answer || got.Replayed != (again == 1) || runs != 1 {
			f.t.Errorf("life %d, call %d: got %+v, %v, %d runs", life, again, got, err, runs)
		}
		if event := events.last(got.ID); event.Takeover != (life > 0 && again == 0) {
			f.t.Errorf("life %d, call %d: event %+v", life, again, event)
		}
	}
	if status, err := f.store.Status(f.t.Context(), request("k")); err != nil || status.State != want {
		f.t.Errorf("life %d: status %+v, %v; want %s", life, status, err, want)
	}
	if n := f.effects(answer); n != 0 && fails || n != 1 && !fails {
		f.t.Errorf("life %d: %d effects", life, n)
	}
}

// TestRun_R08_R17_CutsInEveryMode cuts in each of pgx's ways to execute, which read the last round trip differently, and
// lets half of the callers leave before they have their answer: nothing hides a wrong verdict then, for nothing goes round.
func TestRun_R08_R17_CutsInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range everyMode() {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, mode)
			f, wire, events := wired(t, &Policy{Wait: 20 * time.Second}, 8, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			wire.LoseCancels(true)
			for _, cut := range inEveryMode {
				for _, queued := range []bool{false, true} {
					f.cutAndStay(events, cut.aCut, cut.committed, queued)
					f.cutAndLeave(events, cut.aCut, cut.committed, queued)
				}
			}
			f.clean()
		})
	}
}

// cutAndStay checks that a caller gets the answer of the run that committed.
func (f *fixture) cutAndStay(events *lastEvents, cut aCut, committed, queued bool) {
	f.t.Helper()
	key := fmt.Sprintf("%s, stays, queued %v", cut.name, queued)
	got, err := f.cutOnce(f.t.Context(), key, cut.fault, queued, nil)
	event := events.last(got.ID)
	runs := 2
	if committed {
		runs = 1
	}
	if err != nil || got.Replayed || got.Value != strconv.Itoa(runs) || event.Runs != runs || event.Resolved != committed {
		f.t.Errorf("%s: got %+v, %v, event %+v; want the answer of run %d", key, got, err, event, runs)
	}
}

// cutAndLeave is the same for a caller whose context ends in the handler. What is not committed then is not run again.
func (f *fixture) cutAndLeave(events *lastEvents, cut aCut, committed, queued bool) {
	f.t.Helper()
	key := fmt.Sprintf("%s, leaves, queued %v", cut.name, queued)
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	got, err := f.cutOnce(ctx, key, cut.fault, queued, func(int) error { cancel(); return nil })
	event, effects := events.last(got.ID), f.ran()[key]
	switch {
	case committed && (err != nil || got.Replayed || got.Value != "1" || !event.Resolved || len(effects) != 1):
		f.t.Errorf("%s: got %+v, %v, event %+v, effects of the runs %v; want the answer", key, got, err, event, effects)
	case !committed && (err == nil || !Retryable(err) || errors.Is(err, ErrOutcomeUnknown) || effects != nil):
		f.t.Errorf("%s: got %+v, %v, effects of the runs %v; want an error and none", key, got, err, effects)
	}
}
