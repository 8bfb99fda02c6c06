package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/toolcall"
)

// reaper watches what a process does, and kills or stops it where that is planned. What it sees goes into the mark.
type reaper struct {
	marks io.Writer
	kill  func()        // does not return
	goOn  chan struct{} // the parent has stopped us and let us go on

	mu        sync.Mutex // held for good by the one who dies: nobody reads or writes after that
	death     *death
	stop      *stop
	attempts  map[toolcall.ID]*attempt // of a worker: the last one at each job
	current   *attempt                 // of a server: the call that it makes
	committed *attempt                 // of a worker: has read the answer of COMMIT, and River has not heard
}

// attempt is one that runs here, or a call, and what was seen of it.
type attempt struct{ seen mark }

func newReaper(a assignment, marks io.Writer) *reaper {
	return &reaper{
		marks: marks, kill: lives.KillSelf, goOn: make(chan struct{}, 1), death: a.Death, stop: a.Stop,
		attempts: make(map[toolcall.ID]*attempt),
	}
}

// hear is told what the parent says.
func (r *reaper) hear(line string) {
	switch line {
	case goOn:
		r.goOn <- struct{}{}
	case spare:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.death, r.stop = nil, nil
	}
}

// attempting is told when an attempt at a job begins.
func (r *reaper) attempting(id toolcall.ID, number int, name string, intent int) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &attempt{mark{Intent: intent, Job: id.String(), Number: number, Attempt: name}}
	r.attempts[id] = a
	return a
}

// calling is told when a call of the tool begins.
func (r *reaper) calling(intent int) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &attempt{mark{Intent: intent}}
	return r.current
}

// recorded reports whether the answer to COMMIT of the call was read.
func (r *reaper) recorded(a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.seen.Trace.Record.Answered()
}

// at is told that an attempt has come to a point, which note writes into the trace.
func (r *reaper) at(a *attempt, p point, note func(*trace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note(&a.seen.Trace)
	if p == computeDone {
		r.stopAt(stopCompute, a.seen)
	}
	r.dieAt(p, a.seen)
}

// doom kills the process at a point whatever is planned.
func (r *reaper) doom(a *attempt, p point, note func(*trace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note(&a.seen.Trace)
	r.die(p, a.seen)
}

// wants reports whether the process is to die at the point, now.
func (r *reaper) wants(p point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isDue(p) && r.death.After == 0
}

// comes is wants for a point that there is only where it is wanted. It counts as a visit.
func (r *reaper) comes(p point) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isDue(p) && r.death.After > 0 {
		r.death.After--
		return false
	}
	return r.isDue(p)
}

// write writes a turn to the server, or what the plan leaves of it.
func (r *reaper) write(w *wire, t turn, b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.last, w.of = nil, nil
	a := r.of(t, b)
	if a == nil {
		return w.Conn.Write(b)
	}
	seen := &a.seen.Trace
	switch t.kind {
	case beginTurn:
		return r.pass(w, a, b, &seen.Begin, beginUnsent, beginSent)
	case openTurn:
		*seen = trace{Begin: seen.Begin, Computed: seen.Computed, Open: exchange{Size: len(b)}} // perhaps once more
		r.stopAt(stopOpen, a.seen)
		return r.pass(w, a, b, &seen.Open, "", "")
	case slowTurn:
		return r.pass(w, a, b, &seen.Statement, "", commitInside)
	case finishTurn:
		return r.finish(w, a, t, b)
	case heardTurn:
		return r.heard(w, a, b)
	case recordTurn:
		r.dieInside(w, a, t, b, &seen.Record, submitPart)
		return r.pass(w, a, b, &seen.Record, submitUnsent, submittedSent)
	}
	return w.Conn.Write(b)
}

// of returns what a turn belongs to, or nil if that is of no account.
func (r *reaper) of(t turn, b []byte) *attempt {
	switch t.kind {
	case beginTurn:
		return &attempt{}
	case recordTurn:
		return r.current
	case heardTurn:
		return r.committed
	case openTurn, finishTurn, slowTurn:
		for id, a := range r.attempts {
			if bytes.Contains(b, id[:]) || bytes.Contains(b, []byte(id.String())) {
				return a
			}
		}
	}
	return nil
}

// finish is the turn with the job's end and COMMIT.
func (r *reaper) finish(w *wire, a *attempt, t turn, b []byte) (int, error) {
	e := &a.seen.Trace.Finish
	*e = exchange{Size: len(b)}
	r.stopAt(stopEffect, a.seen)
	r.dieInside(w, a, t, b, e, effectPart)
	after := committedSent
	if r.isDue(committedSlow) {
		after = committedSlow
	}
	return r.pass(w, a, b, e, effectUnsent, after)
}

// heard is the turn that tells River.
func (r *reaper) heard(w *wire, a *attempt, b []byte) (int, error) {
	n, err := r.pass(w, a, b, &a.seen.Trace.Heard, committedUnheard, "")
	r.committed = nil
	return n, err
}

// dieInside writes a part of a turn, but not its COMMIT, if that is the plan.
func (r *reaper) dieInside(w *wire, a *attempt, t turn, b []byte, e *exchange, p point) {
	*e = exchange{Size: len(b)}
	if r.isDue(p) && r.death.After == 0 && t.commit > 1 {
		var err error
		if e.Written, err = w.Conn.Write(b[:1+int(r.death.Part*float64(t.commit-1))]); err != nil {
			return // the session was ended, and the rest cannot be written either
		}
	}
	r.dieAt(p, a.seen)
}

// pass writes all of a turn, and dies before or after.
func (r *reaper) pass(w *wire, a *attempt, b []byte, e *exchange, before, after point) (int, error) {
	*e = exchange{Size: len(b)}
	r.dieAt(before, a.seen)
	w.last, w.of = e, a
	n, err := w.Conn.Write(b)
	if e.Written = n; err == nil {
		r.dieAt(after, a.seen)
	}
	return n, err
}

// read is told how much of an answer was read. It belongs to the last turn.
func (r *reaper) read(w *wire, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.last == nil || n == 0 {
		return
	}
	w.last.Read += n
	if w.last == &w.of.seen.Trace.Finish {
		r.committed = w.of
	}
}

// isDue reports whether the process is to die at the point, now or at a later visit.
func (r *reaper) isDue(p point) bool {
	return p != "" && r.death != nil && r.stop == nil && r.death.Point == p
}

// dieAt ends the process if this is the point.
func (r *reaper) dieAt(p point, seen mark) {
	switch {
	case !r.isDue(p):
	case r.death.After > 0:
		r.death.After--
	default:
		r.die(p, seen)
	}
}

// die ends the process. The mark goes first, in one write.
func (r *reaper) die(p point, seen mark) {
	seen.Step, seen.Point = stepOf(p), p
	r.leave(seen)
	if r.death != nil {
		time.Sleep(r.death.Delay)
	}
	r.kill()
}

// stopAt has the process stopped if this is the point, and holds the attempt there until it goes on: from outside, for a
// process that stops itself runs on for a moment.
func (r *reaper) stopAt(p point, seen mark) {
	switch {
	case r.stop == nil || r.stop.Point != p:
		return
	case r.stop.After > 0:
		r.stop.After--
		return
	}
	r.stop = nil
	seen.Point, seen.Stopped = p, true
	r.leave(seen)
	r.mu.Unlock()
	defer r.mu.Lock()
	<-r.goOn
}

func (r *reaper) leave(seen mark) {
	if line, err := json.Marshal(seen); err == nil {
		_, _ = r.marks.Write(append(line, '\n'))
	}
}
