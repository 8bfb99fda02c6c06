package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"
)

// peersOptions are what the command line of "bench peers" may say.
type peersOptions struct {
	rounds int
	time   time.Duration // of a peer in a setting and a round
	url    string        // of the server, for tests; empty means that devpg decides
}

func beginPeers(args []string, stderr io.Writer) (measurement, error) {
	o, err := parsePeers(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runPeers(ctx, o, stdout, stderr) }, err
}

func parsePeers(args []string, stderr io.Writer) (peersOptions, error) {
	var o peersOptions
	flags := flag.NewFlagSet("bench peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; medians of fewer than 5 say little")
	flags.DurationVar(&o.time, "time", 1500*time.Millisecond, "how long each peer is measured, in each setting and round")
	quick := flags.Bool("quick", false, "one very short round, to see that it works")
	if err := flags.Parse(args); err != nil {
		return peersOptions{}, err
	}
	if *quick {
		o = peersOptions{rounds: 1, time: 200 * time.Millisecond}
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.time <= 0 {
		err := fmt.Errorf("bench-peers: -rounds and -time must be positive, and there are no arguments")
		fmt.Fprintln(stderr, err)
		return peersOptions{}, err
	}
	return o, nil
}
