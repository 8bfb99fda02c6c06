package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// recordKind is how floor writes the row that txidem writes, taken from such a row: it has the same columns and the same
// content, and txidem would replay it.
type recordKind struct {
	pattern toolcall.ID // of the record that it was taken from
	insert  string
	fixed   []any // the values that all records of these calls share, behind those of one call
}

// What ours leaves to the server's clock, floor leaves to it as well.
func clocks() map[string]string {
	return map[string]string{
		"started_at":  `now()`,
		"finished_at": `clock_timestamp()`,
		"expires_at":  `clock_timestamp() + interval '1 day'`,
	}
}

// perCall are the columns that differ from call to call, in the order of the parameters.
func perCall() [4]string { return [4]string{"id", "key", "attempt", "answer"} }

// learnRecord makes a call of ours and takes its record as the pattern.
func (l *link) learnRecord(ctx context.Context) error {
	result, err := txidem.Run(ctx, l.store, request("a pattern"), func(context.Context, pgx.Tx) (receipt, error) {
		return receiptFor(1), nil
	})
	if err != nil {
		return err
	}
	l.record.pattern = result.ID
	columns, values, err := l.readRecord(ctx, result.ID)
	if err != nil {
		return err
	}
	var sources []string
	for i, column := range columns {
		sources = append(sources, l.record.source(column, values[i]))
	}
	l.record.insert = fmt.Sprintf(l.sql.record, strings.Join(columns, ", "), strings.Join(sources, ", "))
	return nil
}

// readRecord returns a call's record, with all columns that there are.
func (l *link) readRecord(ctx context.Context, id toolcall.ID) (columns []string, values []any, err error) {
	rows, err := l.pool.Query(ctx, l.sql.pattern, pgtype.UUID{Bytes: id, Valid: true})
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, nil, fmt.Errorf("a call left no record: %w", rows.Err())
	}
	if values, err = rows.Values(); err != nil {
		return nil, nil, err
	}
	for _, column := range rows.FieldDescriptions() {
		columns = append(columns, column.Name)
	}
	rows.Close()
	return columns, values, rows.Err()
}

// source says where floor takes a column from.
func (k *recordKind) source(column string, value any) string {
	if clock, ok := clocks()[column]; ok {
		return clock
	}
	columns := perCall()
	if i := slices.Index(columns[:], column); i >= 0 {
		return fmt.Sprintf("$%d", i+1)
	}
	k.fixed = append(k.fixed, value)
	return fmt.Sprintf("$%d", len(columns)+len(k.fixed))
}

// queue puts the insert of a call's record on a batch.
func (k *recordKind) queue(b *pgx.Batch, key string, attempt pgtype.UUID, answer []byte) {
	key = "x:" + key
	id := pgtype.UUID{Bytes: toolcall.NewID(scope, tool, key), Valid: true}
	b.Queue(k.insert, append([]any{id, key, attempt, answer}, k.fixed...)...)
}
