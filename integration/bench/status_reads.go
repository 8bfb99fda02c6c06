package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

// readKind is one way to ask for one call.
type readKind struct{ shape }

// The kinds of reads, in the order of the table.
const (
	readRow = iota
	readFinished
	readRowless
	toolFinished
	toolRowless
)

// readSample is what one slice of a kind's time found out.
type readSample struct {
	rate           float64 // reads per second
	client, server float64 // CPU per read in nanoseconds, if known
}

// readTime is a slice of a kind's time.
const readTime = 100 * time.Millisecond

// measureReads has the kinds of reads take turns, each with all workers.
func (s *statusBench) measureReads(ctx context.Context) (err error) {
	l, err := openLink(ctx, s.db, "reads", mostWorkers, dialTo(serverOf(s.db)))
	if err != nil {
		return err
	}
	defer l.pool.Close()
	if err := s.openKinds(l); err != nil {
		return err
	}
	s.say("%d records to read", s.options.known)
	known, err := makeKnown(ctx, l, s.options.known)
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	var pids []uint32
	if s.db.server.PID() != 0 { // else they are another machine's
		if pids, err = backends(ctx, l); err != nil {
			return err
		}
	}
	workers := newWorkers(mostWorkers, known)
	length := min(readTime, s.options.time/time.Duration(len(s.kinds)))
	passes := max(1, int(s.options.time/length)/len(s.kinds))
	for pass := range passes + 1 { // the first one is for plans and caches
		if pass%10 == 0 {
			s.say("reads: pass %d of %d", pass, passes)
		}
		for turn := range s.kinds {
			kind := (turn + pass) % len(s.kinds)
			sample, err := s.sampleReads(ctx, kind, workers, l, pids, length)
			if err != nil {
				return err
			}
			if pass > 0 {
				s.samples[kind] = append(s.samples[kind], sample)
			}
		}
	}
	return nil
}

func (s *statusBench) sampleReads(ctx context.Context, kind int, workers []*worker, l *link, pids []uint32, length time.Duration) (readSample, error) {
	before := cpuOf(pids)
	reads, rate, err := drive(ctx, workers, s.kinds[kind].shape, l, length)
	after := cpuOf(pids)
	return readSample{
		rate:   rate,
		client: float64(after.client-before.client) / float64(reads),
		server: float64(after.server-before.server) / float64(reads),
	}, err
}

func (s *statusBench) openKinds(l *link) error {
	h, err := statustool.Handler(&statustool.HandlerConfig{Scope: scopeOf}, l.store)
	if err != nil {
		return err
	}
	s.kinds = []readKind{
		readRow:      {shape{name: "the row alone, by pgx", call: s.callRow, replays: true}},
		readFinished: {shape{name: "Statuses, a call that has ended", call: callFinished, replays: true}},
		readRowless:  {shape{name: "Statuses, no record", call: callRowless}},
		toolFinished: {shape{name: "statustool, a call that has ended", call: callTool(h, http.StatusOK), replays: true}},
		toolRowless:  {shape{name: "statustool, no record", call: callTool(h, http.StatusNotFound)}},
	}
	s.samples = make([][]readSample, len(s.kinds))
	return nil
}

func idOf(key string) toolcall.ID { return toolcall.NewID(scope, tool, "x:"+key) }

func (s *statusBench) callRow(ctx context.Context, l *link, key string) error {
	var of, state string
	var answer []byte
	var finished time.Time
	return l.pool.QueryRow(ctx, s.sql.row, pgtype.UUID{Bytes: idOf(key), Valid: true}).Scan(&of, &state, &answer, &finished)
}

func callFinished(ctx context.Context, l *link, key string) error {
	return read(ctx, l, key, toolcall.StateSucceeded)
}

func callRowless(ctx context.Context, l *link, key string) error {
	return read(ctx, l, key, toolcall.StateNone)
}

// read asks as statustool does.
func read(ctx context.Context, l *link, key string, want toolcall.State) error {
	statuses, err := l.store.Statuses(ctx, []toolcall.Ask{{Scope: scope, ID: idOf(key)}})
	if err == nil && statuses[0].State != want {
		err = fmt.Errorf("a call is %s, not %s", statuses[0].State, want)
	}
	return err
}

// callTool asks the HTTP handler, without HTTP.
func callTool(h http.Handler, want int) func(context.Context, *link, string) error {
	return func(ctx context.Context, _ *link, key string) error {
		code, body := get(ctx, h, idOf(key), "")
		if code != want {
			return errors.Join(ctx.Err(), fmt.Errorf("the status tool answered %d: %s", code, body))
		}
		return nil
	}
}

// backends returns the server's processes behind the pool.
func backends(ctx context.Context, l *link) (pids []uint32, err error) {
	for range l.pool.Config().MaxConns {
		c, err := l.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer c.Release() // behind the last one: each is another
		pids = append(pids, c.Conn().PgConn().PID())
	}
	return pids, nil
}
