package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"
)

// statusOptions are what the command line of "bench status" may say.
type statusOptions struct {
	time    time.Duration // of all kinds of reads together, and of ends in each cell of waiters
	waiters int
	perSec  int    // ends a second
	known   int    // records that reads find
	url     string // of the server, for tests; empty means that devpg decides
}

func beginStatus(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseStatus(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runStatus(ctx, o, stdout, stderr) }, err
}

func parseStatus(args []string, stderr io.Writer) (statusOptions, error) {
	o := statusOptions{known: 2000}
	flags := flag.NewFlagSet("bench status", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.time, "time", 10*time.Second, "how long reads are measured, and ends in each of four settings")
	flags.IntVar(&o.waiters, "waiters", 1000, "how many wait at a time, each for a job or call of its own; at most 10000")
	flags.IntVar(&o.perSec, "ends", 100, "how many of these jobs or calls end in a second; at most 1000")
	quick := flags.Bool("quick", false, "a second and a few waiters, to see that it works")
	if err := flags.Parse(args); err != nil {
		return statusOptions{}, err
	}
	if *quick {
		o.time, o.waiters, o.known = 300*time.Millisecond, 30, 50
	}
	err := o.check(flags.NArg())
	if err != nil {
		err = fmt.Errorf("bench-status: %w", err)
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *statusOptions) check(rest int) error {
	switch {
	case o.time < 10*time.Millisecond:
		return fmt.Errorf("-time is %v; use 10ms or more", o.time)
	case o.waiters < 1 || o.waiters > 10_000:
		return fmt.Errorf("-waiters is %d; use 1 to 10000", o.waiters)
	case o.perSec < 1 || o.perSec > 1000:
		return fmt.Errorf("-ends is %d; use 1 to 1000", o.perSec)
	case rest > 0:
		return fmt.Errorf("there are no arguments behind the flags")
	}
	return nil
}
