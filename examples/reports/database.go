package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/migrations"
)

// schemas are the Postgres schemas that the program uses. It touches nothing outside them.
type schemas struct {
	app     string // the tables of the application
	records string // the records and jobs of txonce
	river   string // River's tables
}

func schemasNamed(app string) schemas {
	return schemas{app: app, records: app + "_records", river: app + "_records_river"}
}

// database is a pool whose connections see the application's schema, as its queries name no schema.
type database struct {
	*pgxpool.Pool
	names schemas
}

// maxConns is for a worker that is busy: its reports, what River listens on and fetches with, and the sweeper.
const maxConns = 10

// openDatabase connects and creates what is missing. Each process does so when it starts.
func openDatabase(ctx context.Context, url string, names schemas) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = maxConns
	config.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{names.app}.Sanitize()
	config.ConnConfig.RuntimeParams["application_name"] = "txonce reports"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	db := &database{Pool: pool, names: names}
	if err := db.create(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

func (db *database) create(ctx context.Context) error {
	if err := db.script(ctx, fmt.Sprintf(sqlCreate, pgx.Identifier{db.names.app}.Sanitize())); err != nil {
		return fmt.Errorf("create the tables of the example: %w", err)
	}
	return migrations.Up(ctx, db.Pool, &migrations.Config{Schema: db.names.records, RiverSchema: db.names.river})
}

// drop removes the schemas and all that is in them. It is for schemas that this process made up.
func (db *database) drop(ctx context.Context) error {
	return db.script(ctx, fmt.Sprintf(sqlDrop,
		pgx.Identifier{db.names.app}.Sanitize(), pgx.Identifier{db.names.records}.Sanitize(), pgx.Identifier{db.names.river}.Sanitize()))
}

// script runs statements in one transaction.
func (db *database) script(ctx context.Context, sql string) error {
	_, err := db.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// sqlCreate waits for other processes that do the same, because "if not exists" alone can fail when they meet. No constraint
// keeps the reports from having an order twice: that they do not is for the library to see to.
const sqlCreate = `
select pg_advisory_xact_lock(hashtext('txonce reports'));

create schema if not exists %s;

create table if not exists sales (
	day    date not null,
	region text not null,
	cents  bigint not null,
	primary key (region, day)
);
insert into sales
select day::date, region, 50000 + abs(hashtext(region || day::text)) %% 100000
  from generate_series(timestamp '2020-01-01', timestamp '2025-12-31', interval '1 day') day,
       unnest(array['north', 'south', 'east', 'west']) region
 where not exists (select from sales);

create table if not exists reports (
	id         bigint generated always as identity primary key,
	order_no   text not null,
	region     text not null,
	year       integer not null,
	cents      bigint not null,
	best_month text not null,
	made_by    text not null,
	created_at timestamptz not null default now()
);
`

const sqlDrop = `
set local lock_timeout = '5s';
drop schema if exists %s cascade;
drop schema if exists %s cascade;
drop schema if exists %s cascade;
`
