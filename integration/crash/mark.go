package main

import (
	"slices"

	"github.com/txonce/txonce/integration/internal/lives"
)

// mark is what a worker leaves behind when it dies: where it was, and what had gone over the wire. It is written before
// the kill, and by what was seen there rather than by what was planned.
type mark struct {
	Mode    mode
	Step    step
	Point   point
	Intent  int
	Attempt string // the last run of the handler, or none yet
	Claims  int    // how often turn 1 was written for this call
	Trace   trace
}

func (m mark) spot() spot { return spot{m.Mode, m.Step} }

// trace is what was seen of a call, from its last turn 1 on.
type trace struct {
	Claim      exchange // turn 1
	Statements int      // of the handler, written
	Statement  exchange // the last of them
	Handled    bool     // the handler has returned
	Finish     exchange // the last batch, or the record in a caller's transaction
	Commit     exchange // the caller's own COMMIT
	Whole      exchange // the one turn of a batch
	Parts      parts    // of Whole
	Returned   bool     // the call has returned
	Line, Told int      // the size of the answer's line, and how much of it was written
}

// parts says at which bytes the parts of the one turn of a batch begin. The claim is in front of them.
type parts struct{ Record, Effects, Commit int }

// exchange is one round trip, in bytes.
type exchange = lives.Exchange

// last is the exchange that the last answer belongs to.
func (t *trace) last() *exchange {
	switch {
	case !t.Commit.None():
		return &t.Commit
	case !t.Finish.None():
		return &t.Finish
	case !t.Whole.None():
		return &t.Whole
	case t.Statements > 0:
		return &t.Statement
	}
	return &t.Claim
}

// commits is the exchange with COMMIT in it, in a call of the mode.
func (t *trace) commits(m mode) exchange {
	switch {
	case m == txMode:
		return t.Commit
	case !t.Whole.None():
		return t.Whole
	}
	return t.Finish
}

// proven reports whether the worker was where it says.
func (m mark) proven() bool {
	if !slices.Contains(m.Mode.points(m.Step), m.Point) {
		return false
	}
	t := m.Trace
	inHandler := t.Claim.Answered() && t.Finish.None() && !t.Handled && m.Attempt != ""
	finished := (t.Claim.Answered() || !t.Whole.None()) && t.Handled && m.Attempt != ""
	commit := t.commits(m.Mode)
	switch m.Point {
	case claimUnsent:
		return t.Claim.Unsent() && t.Whole.None() || t.Whole.Unsent()
	case claimSent:
		return t.Claim.Sent()
	case claimPart:
		return finished && t.Whole.Partly() && t.Parts.Record <= t.Whole.Written && t.Whole.Written < t.Parts.Effects
	case claimHeld:
		return inHandler && t.Statements == 0
	case betweenTwo:
		return inHandler && t.Statement.Answered()
	case inStatement:
		return inHandler && t.Statement.Sent()
	case inEffects:
		return finished && t.Whole.Partly() && t.Parts.Effects < t.Whole.Written && t.Whole.Written < t.Parts.Commit
	case finishUnsent:
		return finished && t.Finish.Unsent()
	case finishPart:
		return finished && (t.Finish.Partly() || t.Whole.Partly() && t.Whole.Written == t.Parts.Commit)
	case finishHeld:
		return finished && t.Finish.Answered() && t.Commit.Unsent()
	case commitSent, commitSlow:
		return finished && commit.Sent()
	case replyUntold:
		return finished && commit.Answered() && t.Returned && t.Line > 0 && t.Told == 0
	case replyTorn:
		return finished && commit.Answered() && t.Returned && 0 < t.Told && t.Told < t.Line
	}
	return false
}

// beforeCommit reports whether the attempt cannot have committed: COMMIT was not written.
func (m mark) beforeCommit() bool {
	return m.Step == atClaim || m.Step == atHandler || m.Step == atFinish
}

// mayBlock reports whether a leased call that died here may be cut off for good: its claim may be committed, and its answer
// may not be.
func (m mark) mayBlock() bool {
	return m.Mode.leased() && m.Step != atReply && m.Point != claimUnsent
}
