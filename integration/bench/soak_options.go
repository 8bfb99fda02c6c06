package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"
)

// soakOptions are what the command line of "bench soak" may say.
type soakOptions struct {
	time time.Duration // of the load
	rate int           // calls a second
	url  string        // of the server, for tests; empty means that devpg decides
}

// The least time leaves room for a few samples, and for records that expire while others are made.
const leastSoak = 2 * time.Second

func beginSoak(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseSoak(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runSoak(ctx, o, stdout, stderr) }, err
}

func parseSoak(args []string, stderr io.Writer) (soakOptions, error) {
	var o soakOptions
	flags := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.time, "time", time.Hour, "how long calls are made; below 10m memory and tables are shown and not judged")
	flags.IntVar(&o.rate, "rate", 300, "calls a second")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.check(flags.NArg())
	if err != nil {
		err = fmt.Errorf("soak: %w", err)
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *soakOptions) check(rest int) error {
	switch {
	case o.time < leastSoak:
		return fmt.Errorf("-time is %v; use %v or more", o.time, leastSoak)
	case o.rate < 1 || o.rate > 10_000:
		return fmt.Errorf("-rate is %d; use 1 to 10000", o.rate)
	case rest > 0:
		return fmt.Errorf("there are no arguments behind the flags")
	}
	return nil
}

// retention is how long calls and jobs are remembered: a part of the time, so that records expire and are swept in the run.
func (o *soakOptions) retention() time.Duration {
	return min(max(o.time/4, 2*time.Second), time.Minute)
}

// every is the time between two samples.
func (o *soakOptions) every() time.Duration { return max(o.time/60, 250*time.Millisecond) }
