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

// TestRun_R08_R17_CutsInEveryMode cuts in each of pgx's ways to execute, which read the last round trip differently, and
// lets half of the callers leave before they have their answer: nothing hides a wrong verdict then, for nothing goes round.
func TestRun_R08_R17_CutsInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
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
