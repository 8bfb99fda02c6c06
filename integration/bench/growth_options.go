package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// growthOptions are what the command line of "bench growth" may say.
type growthOptions struct {
	sizes   []int
	time    time.Duration // of each size
	workers int
	expire  int    // records that a timed sweep finds
	url     string // of the server, for tests; empty means that devpg decides
}

// Fewer records would leave nothing to measure, more would take days.
const (
	fewest = 100
	most   = 1_000_000_000
)

func parseGrowth(args []string, stderr io.Writer) (growthOptions, error) {
	var o growthOptions
	var sizes string
	flags := flag.NewFlagSet("bench growth", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&sizes, "sizes", "1e4,1e6,1e7", "records in the tables, two sizes or more")
	flags.DurationVar(&o.time, "time", time.Minute, "how long calls on each size are measured; an hour shows whether memory stays flat")
	flags.IntVar(&o.workers, "workers", 1, "workers that make calls at the same time, at most 64")
	flags.IntVar(&o.expire, "expire", 200_000, "expired records to sweep at once, three times")
	quick := flags.Bool("quick", false, "tiny tables and a second each, to see that it works")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *quick {
		sizes, o.time, o.expire = "1e2,1e3,1e4", time.Second, 2_000
	}
	err := o.check(sizes, flags.NArg())
	if err != nil {
		err = fmt.Errorf("growth: %w", err)
		fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *growthOptions) check(sizes string, rest int) error {
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || n != math.Trunc(n) || n < fewest || n > most {
			return fmt.Errorf("-sizes has %q; use whole numbers from %d to %d, such as 1e4,1e6", text, fewest, most)
		}
		o.sizes = append(o.sizes, int(n))
	}
	slices.Sort(o.sizes)
	switch {
	case len(slices.Compact(slices.Clone(o.sizes))) < max(2, len(o.sizes)):
		return fmt.Errorf("-sizes is %q; two different sizes or more can be compared", sizes)
	case o.time < 10*time.Millisecond:
		return fmt.Errorf("-time is %v; use 10ms or more", o.time)
	case o.workers < 1 || o.workers > 64:
		return fmt.Errorf("-workers is %d; use 1 to 64", o.workers)
	case o.expire < 1:
		return fmt.Errorf("-expire is %d; use 1 or more", o.expire)
	case rest > 0:
		return fmt.Errorf("there are no arguments behind the flags")
	}
	return nil
}
