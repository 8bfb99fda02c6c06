package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"
)

// soak is a run of "bench soak" (Q02): a process as one would have it, under steady load for a long time.
type soak struct {
	db       *database
	options  soakOptions
	sql      soakQueries
	flock    flock
	world    *soakWorld
	books    soakBooks
	samples  []soakSample
	left     string        // what was there when all was closed; empty is good
	patience time.Duration // with what takes a moment to end
	also     func()        // for tests: is done in each operation
	progress io.Writer
}

// runSoak makes the calls, closes everything and prints the report on stdout, its progress on stderr. It fails when something
// grew that should not, or went wrong, also if only once.
func runSoak(ctx context.Context, o soakOptions, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	// The autovacuum stays on: that the tables keep their size is its work as well.
	db, err := openDatabaseWith(ctx, o.url, map[string]string{"max_wal_size": "4GB"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close(context.WithoutCancel(ctx))) }()
	s := newSoak(db, o, stderr)
	s.say("PostgreSQL %s, %s", db.server.Version(), db.server.Source())
	if err := s.flock.do(ctx, s.measure); err != nil {
		return err
	}
	return s.report(stdout, time.Since(began))
}

func newSoak(db *database, o soakOptions, progress io.Writer) *soak {
	return &soak{
		db: db, options: o, sql: soakQueriesFor(db.calls), flock: flock{rand.Text()}, patience: hangs, also: func() {}, progress: progress,
	}
}

// measure makes the calls and waits for all that they have begun. What goes wrong with a call is noted, and no reason to stop.
func (s *soak) measure(ctx context.Context) (err error) {
	s.world = newSoakWorld(s)
	defer func() { err = errors.Join(err, s.world.close(context.WithoutCancel(ctx))) }() // if that has not been done
	for _, phase := range []func(context.Context) error{s.world.open, s.makeCalls, s.settle} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	s.books.fail(s.world.close(ctx))
	s.books.fail(s.world.log.first())
	return s.lookForLeft(ctx)
}

// makeCalls makes them at the asked rate, and takes samples meanwhile.
func (s *soak) makeCalls(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.load(loading)
	}()
	err := s.sampleUntil(ctx, over)
	stop()
	<-over
	return errors.Join(err, ctx.Err()) // an interrupt ended the load early
}

// settle waits until jobs have ended and messages have arrived, and compares the tables with the books.
func (s *soak) settle(ctx context.Context) error {
	s.say("waiting for jobs and messages, then closing")
	s.books.fail(await(ctx, int(s.books.submitted.Load()), func() int { return int(s.books.worked.Load()) }))
	s.books.fail(await(ctx, int(s.books.published.Load()), s.world.trips.arrived))
	if n := s.world.trips.alone(); n > 0 {
		s.books.fail(fmt.Errorf("%d messages were delivered twice, or by a call that failed", n))
	}
	if err := s.world.sweepAll(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// lookForLeft waits until no goroutine and no session of the run is there, but for the one that is asking.
func (s *soak) lookForLeft(ctx context.Context) error {
	for deadline := time.Now().Add(s.patience); ; {
		n, stacks := s.flock.members()
		sessions, err := s.sessions(ctx)
		if err != nil {
			return err
		}
		if n == 1 && sessions == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			s.left = fmt.Sprintf("%d goroutines and %d sessions", n-1, sessions)
			s.say("left when all was closed, with the goroutine that asks:\n%s", stacks)
			return nil
		}
		if !pause(ctx, 10*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func (s *soak) sessions(ctx context.Context) (n int, err error) {
	err = s.db.admin.QueryRow(ctx, s.sql.sessions, s.world.name).Scan(&n)
	return n, err
}

func (s *soak) say(format string, args ...any) {
	fmt.Fprintf(s.progress, "soak: "+format+"\n", args...)
}
