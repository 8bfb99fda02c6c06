package main

// plant is a mistake that the processes make on purpose: a judge that finds nothing wrong in them judges nothing.
type plant string

const (
	noPlant         plant = ""
	unprotected     plant = "unprotected"       // servers run one tool without protection
	rewrites        plant = "rewrites"          // servers change an answer as they replay it
	effectOutsideTx plant = "effect-outside-tx" // workers commit their effects on another connection
	deleteFirst     plant = "delete-first"      // relays delete a message before they deliver it
	forgets         plant = "forgets"           // servers answer calls of one tool without having done them
	neverEnds       plant = "never-ends"        // no attempt of a job is the last one
)

func plants() []plant {
	return []plant{unprotected, rewrites, effectOutsideTx, deleteFirst, forgets, neverEnds}
}
