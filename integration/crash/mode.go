package main

import (
	"fmt"
	"slices"
	"strings"
)

// mode is a way to run a call.
type mode string

const (
	runMode    mode = "run"    // txidem.Run
	txMode     mode = "tx"     // txidem.RunTx, in a transaction that the worker commits
	batchMode  mode = "batch"  // txidem.RunBatch
	leasedMode mode = "leased" // txidem.RunLeased, with an effect outside the transaction
)

func allModes() []mode { return []mode{runMode, txMode, batchMode, leasedMode} }

// leased reports whether the mode goes with no other: what RunLeased has run is never run in another way. Any of the others
// may repeat what one of them did.
func (m mode) leased() bool { return m == leasedMode }

// parseModes reads the flag: all modes, or one.
func parseModes(name string) ([]mode, error) {
	switch m := mode(name); {
	case name == "" || name == "all":
		return allModes(), nil
	case slices.Contains(allModes(), m):
		return []mode{m}, nil
	}
	return nil, fmt.Errorf("-mode is %q; use all, %s", name, modeNames())
}

func modeNames() string {
	var names []string
	for _, m := range allModes() {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

// attemptPrefix begins the names of all attempts of one call of one life.
func attemptPrefix(life, number int) string { return fmt.Sprintf("%d.%d.", life, number) }

// attemptName names a run of the handler.
func attemptName(life, number, run int, m mode) string {
	return fmt.Sprintf("%s%d/%s", attemptPrefix(life, number), run, m)
}

// modeOf returns the mode in the name of an attempt.
func modeOf(attempt string) mode {
	_, m, _ := strings.Cut(attempt, "/")
	return mode(m)
}
