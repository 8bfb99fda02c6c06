// Command eachway runs the tests of packages in each way to execute that R17 names: directly and through pgbouncer in
// transaction mode, each with pgx's exec, cache_describe and simple_protocol.
//
//	eachway [-quick] [-race] package ...
//
// For each way and package it prints one line that says what the tests ran on, as they say themselves: server, pooler,
// mode. It ends with the tests that were skipped, and why. Its exit status is 1 when a test failed, or did not run on what
// it was to run on, and 2 for wrong arguments. The tests find their server as package dbtest does; pgbouncer has to be
// installed.
//
// With -quick it takes two ways only, with go test -short and without the tests that repeat the same thing very often.
//
// It may import dbtest only.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
)

// way is one way to execute.
type way struct{ pooler, mode string }

func (w way) String() string {
	if w.pooler == "" {
		return "directly, " + w.mode
	}
	return "through " + w.pooler + ", " + w.mode
}

var modes = [...]string{"exec", "cache_describe", "simple_protocol"}

// quickLeavesOut are tests that a quick run does without: they go through what others do once, with chance and for long, or
// break a server of their own.
const quickLeavesOut = `Model|DuplicatesAmongFaults|CutsAtCommit|CutsAtTheStoring|SerializableCalls|ServerKilled|Standby`

// ways lists what is run.
func ways(quick bool) []way {
	if quick {
		return []way{{"pgbouncer", "cache_describe"}, {"", "simple_protocol"}}
	}
	var all []way
	for _, pooler := range []string{"", "pgbouncer"} {
		for _, mode := range modes {
			all = append(all, way{pooler, mode})
		}
	}
	return all
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run does the work of the command and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("eachway", flag.ContinueOnError)
	fs.SetOutput(stderr)
	quick := fs.Bool("quick", false, "two ways and the shorter tests only")
	race := fs.Bool("race", false, "with the race detector")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		if err == nil {
			fmt.Fprintln(stderr, "usage: eachway [-quick] [-race] package ...")
		}
		return 2
	}
	test := []string{"test", "-json", "-count=1", "-p=1", "-timeout=20m"} // one package at a time: they share the server's connections
	if *race {
		test = append(test, "-race")
	}
	if *quick {
		fmt.Fprintln(stdout, "quick: -short, and without the tests", quickLeavesOut)
		test = append(test, "-short", "-skip", quickLeavesOut)
	}
	status := 0
	var all skips
	for _, w := range ways(*quick) {
		r := w.test(append(slices.Clone(test), fs.Args()...), stderr)
		if !r.print(stdout, w) {
			status = 1
		}
		all.add(w, r)
	}
	all.print(stdout)
	return status
}

// test runs the go command once.
func (w way) test(args []string, stderr io.Writer) *report {
	var out, own bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), dbtest.EnvExecMode+"="+w.mode, dbtest.EnvPooler+"="+w.pooler)
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(stderr, &own)
	begin := time.Now()
	err := cmd.Run()
	r := read(&out)
	r.took = time.Since(begin)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.err = fmt.Errorf("eachway: cannot run the go command: %w", err)
	} else if err != nil && len(r.failed()) == 0 {
		r.err = fmt.Errorf("eachway: go test failed, and no test did: %w; see what it says above: %s", err, strings.TrimSpace(own.String()))
	}
	return r
}
