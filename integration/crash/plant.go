package main

import (
	"fmt"
	"strings"
)

// plant is a mistake that the workers make on purpose: a count that cannot go wrong counts nothing.
type plant string

const (
	noPlant            plant = ""
	effectOutsideTx    plant = "effect-outside-tx"    // the effect is written on another connection; in leased calls, with another downstream key for each attempt
	answerBeforeCommit plant = "answer-before-commit" // the answer is told by the handler; in leased calls that shows only where one is blocked then
	keyPerAttempt      plant = "key-per-attempt"      // every attempt brings a key of its own
)

func plants() []plant { return []plant{effectOutsideTx, answerBeforeCommit, keyPerAttempt} }

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
