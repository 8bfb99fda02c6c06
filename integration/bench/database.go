package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/migrations"
)

// database is the server with our tables in it.
type database struct {
	server     *devpg.Server
	admin      *pgx.Conn // for what is not measured
	calls      string    // the schema of txonce
	sql        queries
	durability string // what the server says about it
	checkpoint string // why there is none, if so
}

// openDatabase uses the server at url, or finds or starts one if that is empty.
func openDatabase(ctx context.Context, url string) (*database, error) {
	// Neither may fall into one shape's cell and not into another's.
	return openDatabaseWith(ctx, url, map[string]string{"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"})
}

// openDatabaseWith does so with parameters for a server that it starts.
func openDatabaseWith(ctx context.Context, url string, parameters map[string]string) (*database, error) {
	server, err := devpg.Start(ctx, &devpg.Config{URL: url, Durable: true, Parameters: parameters})
	if err != nil {
		return nil, err
	}
	db, err := newDatabase(ctx, server, fmt.Sprint("txonce_bench_", os.Getpid()))
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return db, nil
}

// newDatabase makes our tables in the schemas calls and calls_app.
func newDatabase(ctx context.Context, server *devpg.Server, calls string) (*database, error) {
	db := &database{server: server, calls: calls, sql: queriesFor(calls+"_app", calls)}
	if err := db.prepare(ctx); err != nil {
		return nil, errors.Join(err, db.drop(context.WithoutCancel(ctx)))
	}
	return db, nil
}

func (db *database) prepare(ctx context.Context) (err error) {
	if db.admin, err = pgx.Connect(ctx, db.server.URL()); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, db.server.URL())
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, &migrations.Config{Schema: db.calls}); err != nil {
		return err
	}
	if _, err := db.admin.Exec(ctx, db.sql.create); err != nil {
		return err
	}
	return db.admin.QueryRow(ctx, `select 'fsync ' || current_setting('fsync') || ', synchronous_commit ' ||
		current_setting('synchronous_commit') || ', full_page_writes ' || current_setting('full_page_writes')`).Scan(&db.durability)
}

// close drops what was made, also in a server that stays.
func (db *database) close(ctx context.Context) error {
	return errors.Join(db.drop(ctx), db.server.Stop())
}

// drop drops what was made and disconnects. An interrupt inside a statement has closed the connection.
func (db *database) drop(ctx context.Context) (err error) {
	if db.admin == nil {
		return nil
	}
	if err := db.reconnect(ctx); err != nil {
		return err
	}
	_, err = db.admin.Exec(ctx, db.sql.drop)
	return errors.Join(err, db.admin.Close(ctx))
}

// reconnect connects again if that is needed.
func (db *database) reconnect(ctx context.Context) error {
	if !db.admin.IsClosed() {
		return nil
	}
	admin, err := pgx.ConnectConfig(ctx, db.admin.Config())
	if err == nil {
		db.admin = admin
	}
	return err
}

// empty makes all tables empty and writes out what earlier cells have left to write.
func (db *database) empty(ctx context.Context) error {
	if _, err := db.admin.Exec(ctx, db.sql.empty); err != nil {
		return err
	}
	return db.writeOut(ctx)
}

// writeOut makes a checkpoint, where it may.
func (db *database) writeOut(ctx context.Context) error {
	if db.checkpoint != "" {
		return nil
	}
	_, err := db.admin.Exec(ctx, `checkpoint`)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		db.checkpoint, err = refused.Message, nil // somebody's server, on which we may not
	}
	return err
}

// tally is what is in the tables: rows of effects, finished records of txonce, finished claims of five.
type tally struct{ effects, records, claims int }

func (t tally) times(n int) tally { return tally{t.effects * n, t.records * n, t.claims * n} }
func (t tally) plus(o tally) tally {
	return tally{t.effects + o.effects, t.records + o.records, t.claims + o.claims}
}

func (db *database) tally(ctx context.Context) (t tally, err error) {
	err = db.admin.QueryRow(ctx, db.sql.tally).Scan(&t.effects, &t.records, &t.claims)
	return t, err
}

// written returns the bytes of WAL so far, also of commits that did not wait for it.
func (db *database) written(ctx context.Context) (bytes int64, err error) {
	err = db.admin.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&bytes)
	return bytes, err
}
