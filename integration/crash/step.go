package main

import "time"

// step is a part of a protected call.
type step string

const (
	atClaim   step = "claim"
	atHandler step = "handler"
	atFinish  step = "finish"
	atCommit  step = "commit"
	atReply   step = "reply"
)

// steps returns all steps, in the order of a call.
func steps() []step { return []step{atClaim, atHandler, atFinish, atCommit, atReply} }

// point is an exact place in a step.
type point string

const (
	claimUnsent  point = "claim/unsent"         // turn 1 is ready, nothing of it is written
	claimSent    point = "claim/sent"           // turn 1 is written, nothing of its answer is read
	claimPart    point = "claim/part"           // of the one turn of a batch, the claim is written, and perhaps a part of the record
	claimHeld    point = "claim/held"           // the lock or the lease is held, the handler begins
	betweenTwo   point = "handler/between"      // one statement of the handler is done, the next is not begun; in leased calls, the effect is there
	inStatement  point = "handler/in-statement" // a statement of the handler, or the effect of a leased call, is written, and runs for longer than we live
	inEffects    point = "handler/in-effects"   // of the one turn of a batch, the record and a part of the effects are written
	finishUnsent point = "finish/unsent"        // the handler has returned, nothing of the last batch is written
	finishPart   point = "finish/part"          // a part of the last batch is written, COMMIT is not
	finishHeld   point = "finish/held"          // RunTx has returned, the caller's COMMIT is ready and not written
	commitSent   point = "commit/sent"          // all of the last batch is written, nothing of its answer is read
	commitSlow   point = "commit/slow"          // the same, with a statement in front that outlives us: likely to be rolled back, or, in leased calls, late
	replyUntold  point = "reply/untold"         // the call has returned, nothing is told
	replyTorn    point = "reply/torn"           // a part of the answer is told
)

// points returns the places in a step where a worker can be told to die in a call of this mode.
func (m mode) points(s step) []point {
	switch s {
	case atClaim:
		if m == batchMode {
			return []point{claimUnsent, claimPart}
		}
		return []point{claimUnsent, claimSent, claimHeld}
	case atHandler:
		if m == batchMode {
			return []point{inEffects}
		}
		return []point{betweenTwo, inStatement}
	case atFinish:
		switch m {
		case batchMode:
			return []point{finishPart}
		case txMode:
			return []point{finishUnsent, finishPart, finishHeld}
		}
		return []point{finishUnsent, finishPart}
	case atCommit:
		return []point{commitSent, commitSlow}
	case atReply:
		return []point{replyUntold, replyTorn}
	}
	return nil
}

// slowEvery is how often a death at commit is a slow one: others must wait a second for it.
const slowEvery = 8

// pointFor returns the place for the nth death in a step.
func (m mode) pointFor(s step, n int) point {
	points := m.points(s)
	if s == atCommit {
		if n%slowEvery == slowEvery-1 {
			return commitSlow
		}
		return commitSent
	}
	return points[n%len(points)]
}

// spot is where deaths are counted.
type spot struct {
	mode mode
	step step
}

// death is where a worker is to die: at the first call of the mode from number After on that gets to the point.
type death struct {
	Mode  mode
	Step  step
	Point point
	After int
	Part  float64       // how much is written before, where that is a part; between 0 and 1
	Delay time.Duration // from there to the kill
}

func (d death) spot() spot { return spot{d.Mode, d.Step} }
