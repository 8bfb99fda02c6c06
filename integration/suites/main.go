// Command suites runs the tests of the core on each server at hand, in each way to execute that R17 names, and the suites of
// integration/ that bring servers of their own.
//
//	suites [-quick] [-race] [-core | -own] [-places name,name] [-ways way,way] [package ...]
//
// The servers are those of integration/internal/servers: containers of each version where there is an engine with images (make
// pg-image), else local binaries. A way is default (pgx's own, directly), exec, cache_describe or simple_protocol, or one of the
// last three with pgbouncer/ in front: through a pooler in transaction mode, which has to be installed. Without -ways and -places
// it takes all ways in all places, with -quick one way but pgx's own, in one place, and three packages, others each time (the
// same for the same text in TXONCE_DRAW); the tests of the core that repeat the same thing very often are left out then, and so are those
// that go test -short leaves out.
//
// For each package it prints one line that says what the tests ran on, as they say themselves: server, pooler, mode. It ends with
// the tests that were skipped, and why, and all these lines once more. Its exit status is 1 when a test failed, or did not run on
// what it was to run on, and 2 for wrong arguments.
//
// It may import dbtest, devpg and servers only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/dbtest"
)

// corePackages are run on each server in each way.
func corePackages() []string {
	return []string{"./txidem", "./txidem/mcpidem", "./txidem/httpidem", "./jobs", "./outbox"}
}

// directPackages are also run on each server, directly only: poolers and ways to execute are nothing to them.
func directPackages() []string { return []string{"./migrations", "./statustool"} }

// ownPackages bring servers of their own.
func ownPackages() []string {
	return []string{"./integration/faults", "./integration/failover", "./integration/versions"}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the program's flags.
type options struct {
	quick, race bool
	core, own   bool
	places      []string // by name, none for all
	ways        []way    // none for all
	packages    []string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("suites", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.quick, "quick", false, "one combination and the shorter tests only")
	fs.BoolVar(&o.race, "race", false, "with the race detector")
	fs.BoolVar(&o.core, "core", false, "only the tests of the core")
	fs.BoolVar(&o.own, "own", false, "only the suites with servers of their own")
	fs.Func("places", "`names` of places, such as 17 or local, oldest or newest", func(s string) error {
		o.places = strings.Split(s, ",")
		return nil
	})
	fs.Func("ways", "`ways` to execute, such as default,pgbouncer/exec", func(s string) error {
		for name := range strings.SplitSeq(s, ",") {
			w, err := parseWay(name)
			if err != nil {
				return err
			}
			o.ways = append(o.ways, w)
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.packages = fs.Args()
	var err error
	switch {
	case o.core && o.own:
		err = errors.New("suites: -core and -own leave nothing; use one of them")
	case o.own && len(o.packages) > 0:
		err = errors.New("suites: packages are run on servers that they are given, and -own leaves that out; use go test for one suite")
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

// run does the work of the command and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	places, err := servers.AtHand(ctx)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	}
	r := &runner{options: o, draw: dbtest.Draw("suites"), stdout: stdout, stderr: stderr}
	if !o.own {
		plan, err := o.plan(places, r.draw)
		if err != nil {
			_, _ = fmt.Fprintln(stderr, err)
			return 2
		}
		for _, one := range plan {
			r.core(ctx, one)
		}
	}
	if !o.core && len(o.packages) == 0 {
		r.own(ctx, places)
	}
	return r.end()
}

// draws reports whether it is for the program to choose.
func (o options) draws() bool { return o.quick && o.ways == nil && o.places == nil }

// quickPackages is how many packages are drawn for a quick run, beside the first.
const quickPackages = 2

// packagesOf are those that are run in a way.
func (o options) packagesOf(w way, draw *rand.Rand) []string {
	if len(o.packages) > 0 {
		return o.packages
	}
	all := corePackages()
	switch {
	case o.draws():
		others := all[1:]
		draw.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		return all[:1+quickPackages]
	case w == way{}:
		return append(all, directPackages()...)
	}
	return all
}

// combination is a place and the ways to execute there.
type combination struct {
	place servers.Place
	ways  []way
}

// plan says what is run where.
func (o options) plan(places []servers.Place, draw *rand.Rand) ([]combination, error) {
	oldest, newest := places[0], places[len(places)-1]
	if o.draws() {
		others := slices.DeleteFunc(allWays(), func(w way) bool { return w == way{} }) // pgx's own is that of go test
		return []combination{{places[draw.IntN(len(places))], []way{others[draw.IntN(len(others))]}}}, nil
	}
	ways := o.ways
	if ways == nil {
		ways = allWays()
	}
	called := func(p servers.Place, name string) bool {
		return name == p.Name() || name == "oldest" && p == oldest || name == "newest" && p == newest
	}
	for _, name := range o.places {
		if !slices.ContainsFunc(places, func(p servers.Place) bool { return called(p, name) }) {
			return nil, fmt.Errorf("suites: no place is called %s; there are %v", name, places)
		}
	}
	var plan []combination
	for _, p := range places {
		if o.places == nil || slices.ContainsFunc(o.places, func(name string) bool { return called(p, name) }) {
			plan = append(plan, combination{p, ways})
		}
	}
	return plan, nil
}
