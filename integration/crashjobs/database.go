package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/migrations"
)

// sqlTables makes the tables that jobs write to. Nothing in them keeps an effect from being there twice.
const sqlTables = `
create table effect (intent int not null, job text not null, attempt text not null);
create table counter (bucket int primary key, n int not null)`

// prepare opens a fresh database and makes the tables.
func prepare(ctx context.Context, p lives.Place) (*pgxpool.Pool, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	err = migrations.Up(ctx, pool, nil)
	if err == nil {
		_, err = pool.Exec(ctx, sqlTables)
	}
	for bucket := 0; err == nil && bucket < buckets; bucket++ {
		_, err = pool.Exec(ctx, `insert into counter values ($1, 0)`, bucket)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// openJobs is how many jobs have not ended.
func openJobs(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, `select count(*) from txonce.job where finished_at is null`).Scan(&n)
	return n, err
}

const sqlLost = `select attempts > $2 or finished_at is not null from txonce.job where id = $1`

// lostJob reports whether the attempt with this number at the job cannot have it any more.
func lostJob(ctx context.Context, pool *pgxpool.Pool, job string, number int) (lost bool, err error) {
	err = pool.QueryRow(ctx, sqlLost, job, number).Scan(&lost)
	return lost, err
}
