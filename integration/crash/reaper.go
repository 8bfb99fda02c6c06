package main

import (
	"encoding/json"
	"io"
	"sync"
	"syscall"
	"time"
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
	return &reaper{plan: plan, marks: marks, kill: killSelf}
}

// killSelf ends the process as nothing else does: no deferred function, no closing of the connection by pgx.
func killSelf() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // the signal may take its time
}

// begin is told of each call, by its number in this life.
func (r *reaper) begin(number, intent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = r.plan != nil && number >= r.plan.After
	r.seen = mark{Intent: intent}
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
	switch t.kind {
	case claimTurn:
		r.seen.Claims++
		r.seen.Attempt, r.seen.Trace = "", trace{}
		return r.pass(to, b, &r.seen.Trace.Claim, claimUnsent, claimSent)
	case finishTurn:
		finish := &r.seen.Trace.Finish
		if r.isAt(finishPart) && t.commit > 1 {
			*finish = exchange{Size: len(b)}
			finish.Written, _ = to.Write(b[:1+int(r.plan.Part*float64(t.commit-1))])
			r.dieAt(finishPart)
		}
		after := commitSent
		if r.isAt(commitSlow) {
			after = commitSlow
		}
		return r.pass(to, b, finish, finishUnsent, after)
	case statementTurn, slowTurn:
		r.seen.Trace.Statements++
		r.seen.Trace.Statement = exchange{}
		after := point("")
		if t.kind == slowTurn {
			after = inStatement
		}
		return r.pass(to, b, &r.seen.Trace.Statement, "", after)
	}
	return to.Write(b)
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
	switch t := &r.seen.Trace; {
	case !t.Finish.none():
		t.Finish.Read += n
	case t.Statements > 0:
		t.Statement.Read += n
	case !t.Claim.none():
		t.Claim.Read += n
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
