package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dbosSide is DBOS Transact, launched with its defaults. Its context is not the caller's: an interrupt lets the calls that are under
// way come to their ends.
//
// To this module alone it brings, beside the code of its own that knows SQLite and CockroachDB, robfig/cron and jackc/pgerrcode. Its
// own go.mod names much more (an SQLite in Go, cobra and viper), for its command and the driver, which nothing here imports.
type dbosSide struct {
	runtime dbos.Context
	source  *dbos.DataSource
	link    *link
	log     complaints
}

// dbosSides are the two ways to set it up, both of its tutorial of transactions, which differ in the pool of its system database.
//
//   - twoPools: a pool of its own, as where the application's database is another one. A call is 22 round trips and four transactions that
//     wait for the disk: one writes the workflow and its input, one has the effect and a row that says so, one writes the step's
//     output, one the workflow's. Beside the effect these are six row versions, two of them of the workflow.
//   - onePool: the data source's pool. Then it writes effect and step in one transaction, which is the fewest that it can do it in: 17 round
//     trips, three transactions that wait for the disk, five row versions.
type dbosSides struct {
	twoPools, onePool *dbosSide
	system            *pgxpool.Pool // of twoPools
}

// dbosConns is the size of a pool: what DBOS opens by default. One connection of its system database's it keeps, to listen.
const dbosConns = 20

func dbosSchema(calls string) string { return calls + "_dbos" }

func onePoolSchema(calls string) string { return calls + "_dbos_one" }

// launchSides launches both ways, with the link's pool as the data source.
func launchSides(ctx context.Context, db *database, l *link, dial pgconn.DialFunc) (*dbosSides, error) {
	d := &dbosSides{}
	var err error
	if d.system, err = openPool(ctx, db, dbosConns, dial); err != nil {
		return nil, err
	}
	if d.twoPools, err = launchDBOS(ctx, d.system, l, dbosSchema(db.calls)); err == nil {
		d.onePool, err = launchDBOS(ctx, l.pool, l, onePoolSchema(db.calls))
	}
	if err != nil {
		return nil, errors.Join(err, d.shutdown())
	}
	return d, nil
}

// shutdown ends what was launched and says what it complained of before.
func (d *dbosSides) shutdown() error {
	err := errors.Join(d.twoPools.shutdown(), d.onePool.shutdown())
	d.system.Close()
	return err
}

func launchDBOS(ctx context.Context, system *pgxpool.Pool, l *link, schema string) (d *dbosSide, err error) {
	d = &dbosSide{link: l}
	d.runtime, err = dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{
		AppName: "txonce-bench", SystemDBPool: system, DatabaseSchema: schema, Logger: slog.New(&d.log),
	})
	if err != nil {
		return nil, err
	}
	if d.source, err = dbos.NewDataSource(d.runtime, l.pool, dbos.WithDataSourceSchema(schema)); err != nil {
		return nil, errors.Join(err, d.shutdown())
	}
	dbos.RegisterWorkflow(d.runtime, d.refund, dbos.WithWorkflowName("refund"))
	if err := dbos.Launch(d.runtime); err != nil {
		return nil, errors.Join(err, d.shutdown())
	}
	return d, nil
}

// shutdown says what it complained of before: what it breaks off at its end, it warns of.
func (d *dbosSide) shutdown() error {
	if d == nil {
		return nil
	}
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
