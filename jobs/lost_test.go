package jobs

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/txidem"
)

// lostCommits are wires that are cut at a COMMIT, and whether it was committed.
var lostCommits = map[string]struct {
	faultconn.Fault
	commits bool
}{
	"in front of it": {faultconn.Fault{Write: faultconn.Executes, Pass: faultconn.Nothing}, false},
	"behind it":      {faultconn.Fault{Write: faultconn.Executes, Then: faultconn.CutAtAnswer}, true},
}

// cuttable has a pool whose connections can be cut, and a server that finishes what it was asked for.
func cuttable(t *testing.T, d Registered) *caller {
	wire := &faultconn.Dialer{}
	c := callsOn(setupOn(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc }, unhurried(), d))
	wire.LoseCancels(true)
	return c
}

func cutNext(tx pgx.Tx, f faultconn.Fault) { faultconn.Of(tx.Conn().PgConn().Conn()).Arm(f) }

// TestSubmitTx_J01_R08_LostCommit: one job and one handle, on either side of the COMMIT.
func TestSubmitTx_J01_R08_LostCommit(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	c := cuttable(t, d)
	for label, lost := range lostCommits {
		for name, call := range map[string]way{"Run": c.run, "AddTool": c.mcp} {
			runs := 0
			cut := func(ctx context.Context, tx pgx.Tx) (Handle, error) {
				h, err := d.SubmitTx(ctx, tx, c.Runner, in{}, nil)
				if runs++; runs == 1 && err == nil {
					cutNext(tx, lost.Fault)
				}
				return h, err
			}
			first, err := call(t.Context(), label, cut)
			if err != nil || (runs == 1) != lost.commits || runs > 2 {
				t.Errorf("%s, cut %s: %v, %d runs", name, label, err, runs)
			}
			again, err := call(t.Context(), label, cut)
			if err != nil || !again.replayed || again.raw != first.raw {
				t.Errorf("%s, cut %s: the retry got %+v, %v; the first call %+v", name, label, again, err, first)
			}
			c.rowsAre(name+", cut "+label, rows{calls: 1, held: 1, jobs: 1, bells: 1})
			c.status(jobID(t, again.Handle))
			c.clean()
		}
	}
}

// TestSubmitTx_J01_R08_CallersLostCommit: in the caller's transaction, who makes the call again.
func TestSubmitTx_J01_R08_CallersLostCommit(t *testing.T) {
	t.Parallel()
	d := plainly("report", &Options{Queue: idle})
	c := cuttable(t, d)
	for label, lost := range lostCommits {
		call := func(cut bool) (a answer, err error) {
			err = pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
				a, err = c.runInTx(t.Context(), tx, label, submits(c, d, in{}))
				if cut && err == nil {
					cutNext(tx, lost.Fault)
				}
				return err
			})
			return a, err
		}
		first, err := call(true)
		if err == nil {
			t.Errorf("cut %s: no error", label)
		}
		var again answer
		c.eventually("the server has noticed that the transaction is gone", func() bool {
			again, err = call(false)
			return !errors.Is(err, txidem.ErrInProgress)
		})
		if err != nil || again.replayed != lost.commits || (again.raw == first.raw) != lost.commits {
			t.Errorf("cut %s: the retry got %+v, %v; the first call %+v", label, again, err, first)
		}
		c.rowsAre("cut "+label, rows{calls: 1, held: 1, jobs: 1, bells: 1})
		c.status(jobID(t, again.Handle))
		c.clean()
	}
}
