// Package db holds the queries of ../query.sql, written by hand in the form that sqlc generates for pgx (../sqlc.yaml): its
// DBTX is what the tx of a protected call satisfies, so generated code needs no change.
package db

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DBTX is what queries run on: a pool, a connection, or the tx of a protected call.
type DBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// New makes queries that run on db.
func New(db DBTX) *Queries {
	return &Queries{db: db}
}

// Queries are the statements of query.sql.
type Queries struct {
	db DBTX
}

// WithTx makes queries that run in the transaction.
func (q *Queries) WithTx(tx pgx.Tx) *Queries {
	return &Queries{db: tx}
}
