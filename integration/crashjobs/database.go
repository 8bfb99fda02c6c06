package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// sqlTables makes the tables that jobs write to. Nothing in them keeps an effect from being there twice.
const sqlTables = `
create table effect (intent int not null, job text not null, attempt text not null);
create table counter (bucket int primary key, n int not null)`

// prepare opens a fresh database and makes the tables.
func prepare(ctx context.Context, p lives.Place) (*pgxpool.Pool, error) {
	return lives.Prepare(ctx, p, fmt.Sprintf("%s;\ninsert into counter select bucket, 0 from generate_series(0, %d) bucket", sqlTables, buckets-1))
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
