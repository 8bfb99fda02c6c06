package main

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
