package main

import "time"

// step is a part of a job's life, from the call that submits it until River hears of its end.
type step string

const (
	atSubmit    step = "submit"    // of the tool server: the job is in a transaction that is not committed
	atSubmitted step = "submitted" // of the tool server: COMMIT is written, and the caller has no answer
	atBegin     step = "begin"     // River has given the doorbell to the worker, the attempt is not begun
	atCompute   step = "compute"   // the compute half, outside any transaction
	atCommit    step = "commit"    // the commit half has the job's row, nothing of the effect is there
	atEffect    step = "effect"    // the effect is in the transaction, COMMIT is not written
	atCommitted step = "committed" // COMMIT is written, and River has not heard of it
)

// steps returns all steps, in the order of a job.
func steps() []step {
	return []step{atSubmit, atSubmitted, atBegin, atCompute, atCommit, atEffect, atCommitted}
}

// stepsOf returns the steps at which processes of the role die.
func stepsOf(r role) []step {
	if r == server {
		return []step{atSubmit, atSubmitted}
	}
	return []step{atBegin, atCompute, atCommit, atEffect, atCommitted}
}

// point is an exact place in a step.
type point string

const (
	submitQueued     point = "submit/queued"       // SubmitTx has returned, the handler has not
	submitUnsent     point = "submit/unsent"       // the call's last batch is ready, nothing of it is written
	submitPart       point = "submit/part"         // a part of it is written, COMMIT is not
	submittedSent    point = "submitted/sent"      // all of it is written, nothing of its answer is read
	submittedUntold  point = "submitted/untold"    // the call has returned, its caller has heard nothing
	beginUnsent      point = "begin/unsent"        // what begins the attempt is ready, nothing of it is written
	beginSent        point = "begin/sent"          // it is written, nothing of its answer is read
	computeBegun     point = "compute/begun"       // the work was called
	computeDone      point = "compute/done"        // it is about to return
	commitLocked     point = "commit/locked"       // the commit function was called
	commitInside     point = "commit/in-statement" // the statement with the effect is written, and runs for longer than we live
	effectWritten    point = "effect/written"      // the effect is written, another statement is not
	effectUnsent     point = "effect/unsent"       // the commit function has returned, nothing of the last batch is written
	effectPart       point = "effect/part"         // a part of the last batch is written, COMMIT is not
	committedSent    point = "committed/sent"      // all of the last batch is written, nothing of its answer is read
	committedSlow    point = "committed/slow"      // the same, with a statement in front that outlives us: likely to be rolled back
	committedUnheard point = "committed/unheard"   // the answer is read, and River is about to be told
)

// points returns the places in a step where a process can be told to die.
func points(s step) []point {
	switch s {
	case atSubmit:
		return []point{submitQueued, submitUnsent, submitPart}
	case atSubmitted:
		return []point{submittedSent, submittedUntold}
	case atBegin:
		return []point{beginUnsent, beginSent}
	case atCompute:
		return []point{computeBegun, computeDone}
	case atCommit:
		return []point{commitLocked, commitInside}
	case atEffect:
		return []point{effectWritten, effectUnsent, effectPart}
	case atCommitted:
		return []point{committedSent, committedUnheard, committedSent, committedUnheard, committedSlow}
	}
	return nil
}

// stepOf returns the step of a point.
func stepOf(p point) step {
	for _, s := range steps() {
		for _, q := range points(s) {
			if p == q {
				return s
			}
		}
	}
	return ""
}

// death is where a process is to die: at the first visit to the point behind some others.
type death struct {
	Point point
	After int           // visits that it survives
	Part  float64       // how much is written before, where that is a part; between 0 and 1
	Delay time.Duration // from there to the kill
}

// The places where a worker can be stopped, which is what a paused virtual machine does: the process stands still, its
// connections stay open, and its lease runs out.
const (
	stopCompute point = "stopped/compute" // the compute half is about to return
	stopOpen    point = "stopped/open"    // what opens the commit half's transaction is ready, nothing of it is written
	stopEffect  point = "stopped/effect"  // the effect is in the transaction, nothing of the last batch is written
)

func stopPoints() []point { return []point{stopCompute, stopOpen, stopEffect} }

// stop is where a worker is to be stopped, once.
type stop struct {
	Point point
	After int
}
