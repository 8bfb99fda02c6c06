package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// statusBench is a run of "bench status".
type statusBench struct {
	db       *database
	options  statusOptions
	sql      statusQueries
	kinds    []readKind
	samples  [][]readSample // of the kinds
	wakes    []wakeCell     // in the order of the table
	progress io.Writer
}

// runStatus measures everything and prints the report on stdout, its progress on stderr.
func runStatus(ctx context.Context, o statusOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	db, err := openDatabase(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	s := newStatusBench(db, o, stderr)
	s.say("PostgreSQL %s, %s", db.server.Version(), db.server.Source())
	for _, part := range []func(context.Context) error{s.measureReads, s.measureWakes} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return s.report(stdout, time.Since(began))
}

func newStatusBench(db *database, o statusOptions, progress io.Writer) *statusBench {
	return &statusBench{db: db, options: o, sql: statusQueriesFor(db.calls), progress: progress}
}

func (s *statusBench) say(format string, args ...any) {
	fmt.Fprintf(s.progress, "bench-status: "+format+"\n", args...)
}

// settle leaves the tables as an autovacuum would have left them.
func (s *statusBench) settle(ctx context.Context) error {
	_, err := s.db.admin.Exec(ctx, s.sql.settle)
	return err
}
