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
	claimHeld    point = "claim/held"           // the lock is held, the handler begins
	betweenTwo   point = "handler/between"      // one statement of the handler is done, the next is not begun
	inStatement  point = "handler/in-statement" // a statement of the handler is written, and runs for longer than we live
	finishUnsent point = "finish/unsent"        // the handler has returned, nothing of the last batch is written
	finishPart   point = "finish/part"          // a part of the last batch is written, COMMIT is not
	commitSent   point = "commit/sent"          // all of the last batch is written, nothing of its answer is read
	commitSlow   point = "commit/slow"          // the same, with a statement in front that outlives us: likely to be rolled back
	replyUntold  point = "reply/untold"         // Run has returned, nothing is told
	replyTorn    point = "reply/torn"           // a part of the answer is told
)

// points returns the places in a step where a worker can be told to die.
func (s step) points() []point {
	switch s {
	case atClaim:
		return []point{claimUnsent, claimSent, claimHeld}
	case atHandler:
		return []point{betweenTwo, inStatement}
	case atFinish:
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
func (s step) pointFor(n int) point {
	points := s.points()
	if s == atCommit {
		if n%slowEvery == slowEvery-1 {
			return commitSlow
		}
		return commitSent
	}
	return points[n%len(points)]
}

// death is where a worker is to die: at the first call from number After on that gets to the point.
type death struct {
	Step  step
	Point point
	After int
	Part  float64       // how much is written before, where that is a part; between 0 and 1
	Delay time.Duration // from there to the kill
}

// mark is what a worker leaves behind when it dies: where it was, and what had gone over the wire. It is written before
// the kill, and by what was seen there rather than by what was planned.
type mark struct {
	Step    step
	Point   point
	Intent  int
	Attempt string // the last run of the handler, or none yet
	Claims  int    // how often turn 1 was written for this call
	Trace   trace
}

// trace is what was seen of a call, from its last turn 1 on.
type trace struct {
	Claim      exchange // turn 1
	Statements int      // of the handler, written
	Statement  exchange // the last of them
	Handled    bool     // the handler has returned
	Finish     exchange // the last batch
	Returned   bool     // Run has returned
	Line, Told int      // the size of the answer's line, and how much of it was written
}

// exchange is one round trip, in bytes.
type exchange struct{ Size, Written, Read int }

func (e exchange) unsent() bool   { return e.Size > 0 && e.Written == 0 }
func (e exchange) partly() bool   { return 0 < e.Written && e.Written < e.Size }
func (e exchange) sent() bool     { return e.Size > 0 && e.Written == e.Size && e.Read == 0 }
func (e exchange) answered() bool { return e.Size > 0 && e.Written == e.Size && e.Read > 0 }
func (e exchange) none() bool     { return e == exchange{} }

// proven reports whether the worker was where it says.
func (m mark) proven() bool {
	t := m.Trace
	inHandler := t.Claim.answered() && t.Finish.none() && !t.Handled && m.Attempt != ""
	finished := t.Claim.answered() && t.Handled
	switch m.Point {
	case claimUnsent:
		return m.Step == atClaim && t.Claim.unsent()
	case claimSent:
		return m.Step == atClaim && t.Claim.sent()
	case claimHeld:
		return m.Step == atClaim && inHandler && t.Statements == 0
	case betweenTwo:
		return m.Step == atHandler && inHandler && t.Statement.answered()
	case inStatement:
		return m.Step == atHandler && inHandler && t.Statement.sent()
	case finishUnsent:
		return m.Step == atFinish && finished && t.Finish.unsent()
	case finishPart:
		return m.Step == atFinish && finished && t.Finish.partly()
	case commitSent, commitSlow:
		return m.Step == atCommit && finished && t.Finish.sent()
	case replyUntold:
		return m.Step == atReply && finished && t.Finish.answered() && t.Returned && t.Line > 0 && t.Told == 0
	case replyTorn:
		return m.Step == atReply && finished && t.Finish.answered() && t.Returned && 0 < t.Told && t.Told < t.Line
	}
	return false
}

// beforeCommit reports whether the attempt cannot have committed: COMMIT was not written.
func (m mark) beforeCommit() bool {
	return m.Step == atClaim || m.Step == atHandler || m.Step == atFinish
}
