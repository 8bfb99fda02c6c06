package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/txidem"
)

// schemas are the Postgres schemas that the program uses. It touches nothing outside them.
type schemas struct {
	app    string // the tables of the application
	txonce string // the records of txonce
}

// river is the schema of the job queue, by its default name.
func (s schemas) river() string { return s.txonce + "_river" }

// database is a pool whose connections see the application's schema, as its queries name no schema.
type database struct {
	*pgxpool.Pool
	schemas schemas
}

const maxConns = 24

// openDatabase connects and creates what is missing in the schemas.
func openDatabase(ctx context.Context, url string, names schemas) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = maxConns
	config.ConnConfig.RuntimeParams["search_path"] = names.app
	config.ConnConfig.RuntimeParams["application_name"] = "txonce quickstart"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := &database{Pool: pool, schemas: names}
	if err := db.create(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

// create makes the application's tables, and txonce's with migrations.Up, as any program does when it starts.
func (db *database) create(ctx context.Context) error {
	if err := db.script(ctx, fmt.Sprintf(sqlCreate, pgx.Identifier{db.schemas.app}.Sanitize())); err != nil {
		return fmt.Errorf("create the tables of the demo: %w", err)
	}
	return migrations.Up(ctx, db.Pool, &migrations.Config{Schema: db.schemas.txonce})
}

// store makes the store of the records. A duplicate of a running call waits for its answer, but less long than the
// clients of the demo wait for anything: they should hear "in progress", and not nothing.
func (db *database) store() (*txidem.Store, error) {
	return txidem.New(db.Pool, &txidem.Config{
		Schema: db.schemas.txonce,
		Policy: &txidem.Policy{Wait: 200 * time.Millisecond},
	})
}

// drop removes the schemas and all that is in them. It is for schemas that this process made up.
func (db *database) drop(ctx context.Context) error {
	return db.script(ctx, fmt.Sprintf(sqlDrop, pgx.Identifier{db.schemas.app}.Sanitize(),
		pgx.Identifier{db.schemas.txonce}.Sanitize(), pgx.Identifier{db.schemas.river()}.Sanitize()))
}

// script runs statements in one transaction.
func (db *database) script(ctx context.Context, sql string) error {
	_, err := db.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// sqlCreate waits for other processes that do the same, because "if not exists" alone can fail when they meet.
const sqlCreate = `
select pg_advisory_xact_lock(hashtext('txonce quickstart'));

create schema if not exists %s;

create table if not exists refunds (
	id         bigint generated always as identity primary key,
	order_id   text not null,
	cents      bigint not null check (cents > 0),
	memo       text not null,
	created_at timestamptz not null default now()
);
create index if not exists refunds_order on refunds (order_id);

create table if not exists tickets (
	id         bigint generated always as identity primary key,
	customer   text not null,
	subject    text not null,
	created_at timestamptz not null default now()
);

create table if not exists ledger (
	id         bigint generated always as identity primary key,
	account    text not null,
	cents      bigint not null,
	text       text not null,
	created_at timestamptz not null default now()
);
create index if not exists ledger_account on ledger (account);

create table if not exists statements (
	id         bigint generated always as identity primary key,
	account    text not null,
	month      text not null,
	pages      int not null,
	balance    bigint not null,
	created_at timestamptz not null default now()
);
`

const sqlDrop = `
set local lock_timeout = '2s';
drop schema if exists %s cascade;
drop schema if exists %s cascade;
drop schema if exists %s cascade;
`
