package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// reaper watches a worker's calls and kills it where it is to die. What it sees of the call goes into the mark.
type reaper struct {
	plan  *death
	marks io.Writer
	kill  func() // does not return

	mu    sync.Mutex // held for good by the one who dies: nobody reads or writes after that
	armed bool
	seen  mark
}

func newReaper(plan *death, marks io.Writer) *reaper {
	return &reaper{plan: plan, marks: marks, kill: lives.KillSelf}
}

// begin is told of each call, by its number in this life.
func (r *reaper) begin(number, intent int, m mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = r.plan != nil && number >= r.plan.After && m == r.plan.Mode
	r.seen = mark{Intent: intent, Mode: m}
}

// handling is told when the handler begins.
func (r *reaper) handling(attempt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Attempt = attempt
	r.dieAt(claimHeld)
}

// between is told when the handler has done one statement and is about to do the next.
func (r *reaper) between() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dieAt(betweenTwo)
}

// handled is told when the handler is about to return.
func (r *reaper) handled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.Trace.Handled = true
}

// wants reports whether the handler should do what it takes to die at the point.
func (r *reaper) wants(p point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isAt(p)
}

// claims returns how often turn 1 was written for the call.
func (r *reaper) claims() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen.Claims
}

// write writes a turn to the server, or what the plan leaves of it.
func (r *reaper) write(to io.Writer, t turn, b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := &r.seen.Trace
	switch t.kind {
	case claimTurn:
		r.claiming()
		return r.pass(to, b, &seen.Claim, claimUnsent, claimSent)
	case wholeTurn:
		r.claiming()
		seen.Parts = t.parts
		r.dieInWhole(to, t.parts, b)
		return r.pass(to, b, &seen.Whole, claimUnsent, r.whenCommitted())
	case finishTurn:
		return r.finish(to, t, b)
	case commitTurn:
		if r.seen.Mode == txMode && seen.Finish.Answered() { // others commit nothing
			return r.pass(to, b, &seen.Commit, finishHeld, r.whenCommitted())
		}
	case statementTurn, slowTurn:
		seen.Statements++
		seen.Statement = exchange{}
		after := point("")
		if t.kind == slowTurn {
			after = inStatement
		}
		return r.pass(to, b, &seen.Statement, "", after)
	}
	return to.Write(b)
}

// claiming begins the trace anew. The handler of a batch has returned by then.
func (r *reaper) claiming() {
	r.seen.Claims++
	if r.seen.Mode == batchMode {
		r.seen.Trace = trace{Handled: r.seen.Trace.Handled}
		return
	}
	r.seen.Attempt, r.seen.Trace = "", trace{}
}

// whenCommitted is the point behind a turn with COMMIT.
func (r *reaper) whenCommitted() point {
	if r.isAt(commitSlow) {
		return commitSlow
	}
	return commitSent
}

// dieInWhole writes a part of the one turn of a batch, if that is the plan.
func (r *reaper) dieInWhole(to io.Writer, at parts, b []byte) {
	cut, part := 0, r.plannedPart()
	switch {
	case r.isAt(claimPart):
		cut = at.Record + int(part*float64(at.Effects-at.Record))
	case r.isAt(inEffects):
		cut = at.Effects + 1 + int(part*float64(at.Commit-at.Effects-1))
	case r.isAt(finishPart):
		cut = at.Commit
	}
	if cut > 0 {
		e := &r.seen.Trace.Whole
		*e = exchange{Size: len(b)}
		e.Written, _ = to.Write(b[:cut])
		r.dieAt(r.plan.Point)
	}
}

func (r *reaper) plannedPart() float64 {
	if r.plan == nil {
		return 0
	}
	return r.plan.Part
}

// finish is the turn with the record, and, but for a caller's transaction, with COMMIT.
func (r *reaper) finish(to io.Writer, t turn, b []byte) (int, error) {
	e, limit, after := &r.seen.Trace.Finish, t.commit, r.whenCommitted()
	if r.seen.Mode == txMode {
		limit, after = len(b), ""
	}
	if r.isAt(finishPart) && limit > 1 {
		*e = exchange{Size: len(b)}
		e.Written, _ = to.Write(b[:1+int(r.plan.Part*float64(limit-1))])
		r.dieAt(finishPart)
	}
	return r.pass(to, b, e, finishUnsent, after)
}

// pass writes all of a turn, and dies before or after.
func (r *reaper) pass(to io.Writer, b []byte, e *exchange, before, after point) (int, error) {
	*e = exchange{Size: len(b)}
	r.dieAt(before)
	n, err := to.Write(b)
	if e.Written = n; err == nil {
		r.dieAt(after)
	}
	return n, err
}

// read is told how much of an answer was read. It belongs to the last turn.
func (r *reaper) read(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.seen.Trace.last(); !last.None() {
		last.Read += n
	}
}

// tell writes the line of an answer, or what the plan leaves of it. Only a first answer is worth dying for: the effect
// is committed and nobody knows.
func (r *reaper) tell(to io.Writer, line []byte, fresh bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &r.seen.Trace
	t.Returned, t.Line = true, len(line)
	if fresh {
		r.dieAt(replyUntold)
		if r.isAt(replyTorn) {
			t.Told, _ = to.Write(line[:1+int(r.plan.Part*float64(len(line)-2))]) // never the line feed
			r.dieAt(replyTorn)
		}
	}
	var err error
	t.Told, err = to.Write(line)
	return err
}

func (r *reaper) isAt(p point) bool { return r.armed && r.plan.Point == p }

// dieAt ends the process if this is the point. The mark goes first, in one write.
func (r *reaper) dieAt(p point) {
	if p == "" || !r.isAt(p) {
		return
	}
	r.seen.Step, r.seen.Point = r.plan.Step, p
	line, err := json.Marshal(r.seen)
	if err == nil {
		_, _ = r.marks.Write(append(line, '\n'))
	}
	time.Sleep(r.plan.Delay)
	r.kill()
}
