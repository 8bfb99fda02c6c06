package main

import (
	"fmt"
	"strings"
)

// plant is a mistake that the processes make on purpose: a count that cannot go wrong counts nothing.
type plant string

const (
	noPlant            plant = ""
	completeTx         plant = "complete-tx"          // plain River workers, which rely on river.JobCompleteTx
	effectOutsideTx    plant = "effect-outside-tx"    // the effect is written on another connection
	answerBeforeCommit plant = "answer-before-commit" // the tool server answers before its COMMIT
	noRescue           plant = "no-rescue"            // leases are long: nobody takes over what a dead worker has
)

func plants() []plant { return []plant{completeTx, effectOutsideTx, answerBeforeCommit, noRescue} }

func plantNames() string {
	var names []string
	for _, p := range plants() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// parsePlant reads the flag: nothing or 0 for no mistake, 1 for the first one, or a name.
func parsePlant(name string) (plant, error) {
	switch name {
	case "", "0":
		return noPlant, nil
	case "1":
		return plants()[0], nil
	}
	for _, p := range plants() {
		if string(p) == name {
			return p, nil
		}
	}
	return noPlant, fmt.Errorf("-plant is %q; use %s, or 1 for the first of them", name, plantNames())
}

// reaches reports whether workers with this mistake come by the point. Plain ones have other turns than ours.
func (p plant) reaches(at point) bool {
	switch at {
	case computeBegun, computeDone, commitLocked, effectWritten, submitQueued, submitUnsent, submitPart, submittedSent, submittedUntold:
		return true
	}
	return p != completeTx
}

// stops reports whether workers are stopped: others must take over then.
func (p plant) stops() bool { return p != completeTx && p != noRescue }
