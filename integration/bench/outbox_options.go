package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// outboxOptions are what the command line of "bench outbox" may say.
type outboxOptions struct {
	rounds      int
	time        time.Duration // of a setting in a round
	trips       time.Duration // of each setting in which messages are few
	backlog     int           // messages that wait when a backlog is drained
	concurrency int           // attempts of a relay at a time
	parts       []string      // what is measured
	profile     string        // file for a CPU profile of this process; empty for none
	bloat       time.Duration // how long the snapshot is held; 0 for all the other parts
	url         string        // of the server, for tests; empty means that devpg decides
}

// outboxParts are the parts of "bench outbox", in their order.
func outboxParts() []string { return []string{"rates", "trips", "drains", "calls"} }

func beginOutbox(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseOutbox(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runOutbox(ctx, o, stdout, stderr) }, err
}

func parseOutbox(args []string, stderr io.Writer) (outboxOptions, error) {
	var o outboxOptions
	flags := flag.NewFlagSet("bench outbox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; medians of fewer than 5 say little")
	flags.DurationVar(&o.time, "time", 1500*time.Millisecond, "how long each setting is measured in a round")
	flags.DurationVar(&o.trips, "trips", 10*time.Second, "how long each setting is measured in which messages are few")
	flags.IntVar(&o.backlog, "backlog", 20_000, "messages that wait when a backlog is drained")
	flags.IntVar(&o.concurrency, "concurrency", 64, "Destination.Concurrency, from 1 to 1000")
	flags.DurationVar(&o.bloat, "bloat", 0, "instead of all else: hold a snapshot for so long under steady load, and see what that costs (10m)")
	parts := flags.String("parts", strings.Join(outboxParts(), ","), "what is measured; without all of them there is no last line")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of this process to this file")
	quick := flags.Bool("quick", false, "one very short round, to see that it works")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		o.rounds, o.time, o.trips, o.backlog = 1, 100*time.Millisecond, 200*time.Millisecond, 200
	}
	o.parts = strings.Split(*parts, ",")
	err := o.check(flags.NArg())
	if err != nil {
		err = fmt.Errorf("bench-outbox: %w", err)
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *outboxOptions) check(rest int) error {
	switch {
	case o.rounds < 1:
		return fmt.Errorf("-rounds is %d; use 1 or more", o.rounds)
	case o.time < 10*time.Millisecond || o.trips < 10*time.Millisecond:
		return fmt.Errorf("-time is %v and -trips %v; use 10ms or more", o.time, o.trips)
	case o.backlog < 1:
		return fmt.Errorf("-backlog is %d; use 1 or more", o.backlog)
	case o.concurrency < 1 || o.concurrency > 1000:
		return fmt.Errorf("-concurrency is %d; use 1 to 1000", o.concurrency)
	case o.bloat != 0 && o.bloat < time.Second:
		return fmt.Errorf("-bloat is %v; use 1s or more, or leave it away", o.bloat)
	case slices.ContainsFunc(o.parts, func(part string) bool { return !slices.Contains(outboxParts(), part) }):
		return fmt.Errorf("-parts is %q; use some of %q", o.parts, outboxParts())
	case rest > 0:
		return fmt.Errorf("there are no arguments behind the flags")
	}
	return nil
}
