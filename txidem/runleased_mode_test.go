package txidem

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
)

// TestRunLeased_R14_R17_EachMode goes through what RunLeased sends in each of pgx's ways to execute.
func TestRunLeased_R14_R17_EachMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name(mode), func(t *testing.T) {
			t.Parallel()
			dbtest.SkipPreparing(t, mode)
			f := setup(t, &Policy{Lease: long, Renew: 50 * time.Millisecond, OnLeaseLost: RerunLost}, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.DefaultQueryExecMode = mode
			})
			held, _ := f.holdLeased(t.Context(), request("k"), nil)
			f.exec(`update txonce.call set lease_until = clock_timestamp() + interval '30 s'`)
			eventually(t, "it has been renewed", func() bool {
				return says(t, f.pool, `select lease_until > clock_timestamp() + interval '1 min' from txonce.call`)
			})
			f.wantReused(request("k"))
			first := held.end(leaves("k", doAnswers("done")))
			again, err := RunLeased(t.Context(), f.store, request("k"), neverDo(t), nil)
			if first.err != nil || err != nil || !again.Replayed || string(again.Raw) != string(first.Raw) || !again.FinishedAt.Equal(first.FinishedAt) || f.effects("k") != 1 {
				t.Errorf("first %+v, then %+v, %v, %d statements", first, again, err, f.effects("k"))
			}
			p := &provider{}
			key := f.abandon(request("cut off"))
			for _, err := range []error{errCutOff, NotDone(errCutOff), Fail("no", "no"), nil} {
				if _, got := RunLeased(t.Context(), f.store, request("cut off"), p.fails(err), findsNothing); got == nil {
					t.Errorf("%v: no error, or no replay of the failure", err)
				}
			}
			if keys := p.paid(); len(keys) != 3 || keys[0] != key || keys[1] != key || keys[2] != key {
				t.Errorf("the keys are %q; want %s for each attempt", keys, key)
			}
			f.age("x:%")
			if got, err := RunLeased(t.Context(), f.store, request("k"), doAnswers("new"), nil); err != nil || got.Replayed || got.Value != "new" {
				t.Errorf("over an expired record: %+v, %v", got, err)
			}
			f.renewsNothing()
		})
	}
}

// findsNothing finds nothing.
func findsNothing(context.Context) (string, bool, error) { return "", false, nil }
