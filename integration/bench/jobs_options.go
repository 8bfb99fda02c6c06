package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"
)

// jobsOptions are what the command line of "bench jobs" may say.
type jobsOptions struct {
	rounds int
	time   time.Duration // of a side in a setting and a round
	url    string        // of the server, for tests; empty means that devpg decides
}

func beginJobs(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseJobs(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runJobs(ctx, o, stdout, stderr) }, err
}

func parseJobs(args []string, stderr io.Writer) (jobsOptions, error) {
	var o jobsOptions
	flags := flag.NewFlagSet("bench jobs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; medians of fewer than 5 say little")
	flags.DurationVar(&o.time, "time", 1500*time.Millisecond, "how long each side is measured, in each setting and round")
	quick := flags.Bool("quick", false, "one very short round, to see that it works")
	if err := flags.Parse(args); err != nil {
		return jobsOptions{}, err
	}
	if *quick {
		o = jobsOptions{rounds: 1, time: 200 * time.Millisecond}
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.time <= 0 {
		err := fmt.Errorf("bench-jobs: -rounds and -time must be positive, and there are no arguments")
		fmt.Fprintln(stderr, err)
		return jobsOptions{}, err
	}
	return o, nil
}
