package main

// plant is a mistake that the workers make on purpose: a count that cannot go wrong counts nothing.
type plant string

const (
	noPlant            plant = ""
	effectOutsideTx    plant = "effect-outside-tx"    // the effect is written on another connection; in leased calls, with another downstream key for each attempt
	answerBeforeCommit plant = "answer-before-commit" // the answer is told by the handler; in leased calls that shows only where one is blocked then
	keyPerAttempt      plant = "key-per-attempt"      // every attempt brings a key of its own
)

func plants() []plant { return []plant{effectOutsideTx, answerBeforeCommit, keyPerAttempt} }
