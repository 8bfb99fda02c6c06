package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// dbosSide is DBOS Transact, launched on a link's pool. Its context is not the caller's: an interrupt lets the calls that are under way
// come to their ends.
//
// For one call it takes 17 round trips in three transactions, all of which wait for the disk: one writes the workflow and its input,
// one looks whether the step was done, has the effect behind a savepoint, locks the workflow and writes the step's output, one
// writes the workflow's output. Beside the effect these are five row versions, two of them of the workflow.
//
// To this module alone it brings, beside the code of its own that knows SQLite and CockroachDB, robfig/cron and jackc/pgerrcode. Its
// own go.mod names much more (an SQLite in Go, cobra and viper), for its command and the driver, which nothing here imports.
type dbosSide struct {
	runtime dbos.Context
	source  *dbos.DataSource
	link    *link
	log     complaints
}

// dbosConns is the size of the pool that the peers share: what DBOS opens by default. One of these it keeps for itself, to
// listen.
const dbosConns = 20

func dbosSchema(calls string) string { return calls + "_dbos" }

// launchDBOS launches it with its defaults. The system database and the data source are the same pool: then an effect and its
// step are written in one transaction, which is the fewest round trips that DBOS can do it in.
func launchDBOS(ctx context.Context, l *link, calls string) (d *dbosSide, err error) {
	d = &dbosSide{link: l}
	d.runtime, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "txonce-bench", SystemDBPool: l.pool, DatabaseSchema: dbosSchema(calls), Logger: slog.New(&d.log),
	})
	if err != nil {
		return nil, err
	}
	if d.source, err = dbos.NewDataSource(d.runtime, l.pool); err != nil {
		return nil, errors.Join(err, d.shutdown())
	}
	dbos.RegisterWorkflow(d.runtime, d.refund, dbos.WithWorkflowName("refund"))
	if err := dbos.Launch(d.runtime); err != nil {
		return nil, errors.Join(err, d.shutdown())
	}
	return d, nil
}

// shutdown ends it and says what it complained of before: what it breaks off at its end, it warns of.
func (d *dbosSide) shutdown() error {
	complaint := d.log.first()
	return errors.Join(complaint, dbos.Shutdown(d.runtime, hangs))
}

// refund is a workflow of one transaction, whose id is the idempotency key.
func (d *dbosSide) refund(ctx dbos.Context, args jobArgs) (receipt, error) {
	key, err := ctx.GetWorkflowID()
	if err != nil {
		return receipt{}, err
	}
	return dbos.RunAsTransaction(ctx, d.source, func(ctx context.Context, tx dbos.Tx) (receipt, error) {
		var refund int64
		err := tx.QueryRow(ctx, d.link.sql.effect, key, args.OrderID, args.Cents).Scan(&refund)
		return receiptFor(refund), err
	})
}

// call is the call that all shapes make, and waits for its answer.
func (d *dbosSide) call(_ context.Context, _ *link, key string) error {
	handle, err := dbos.RunWorkflow(d.runtime, d.refund, argsFor(1), dbos.WithWorkflowID(key))
	if err != nil {
		return err
	}
	answer, err := handle.GetResult(dbos.WithHandleTimeout(hangs))
	if err == nil && answer.OrderID != orderID {
		err = errors.New("a workflow has another answer than its transaction")
	}
	return err
}
