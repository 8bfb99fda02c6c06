package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
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

	mu      sync.Mutex // held for good by the one who dies: nobody reads or writes after that
	death   *death
	stop    *stop
	awake   time.Time
	has     map[toolcall.ID]*attempt // of a relay: what it has claimed, and not settled
	current *attempt                 // of a server: the call that it makes
}

// attempt is one that runs here, a look or a call, and what was seen of it.
type attempt struct {
	seen  mark
	since time.Time // when its message was claimed
}

func newReaper(a assignment, marks io.Writer) *reaper {
	r := &reaper{
		marks: marks, kill: lives.KillSelf, goOn: make(chan struct{}, 1), death: a.Death, stop: a.Stop,
		has: make(map[toolcall.ID]*attempt),
	}
	if a.Death != nil {
		r.awake = time.Now().Add(a.Death.Awake)
	}
	return r
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

// delivering is told when an attempt begins.
func (r *reaper) delivering(id toolcall.ID, number int) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := &attempt{seen: mark{Message: id.String(), Number: number, Trace: trace{Begun: true}}, since: time.Now()}
	if claimed := r.has[id]; claimed != nil {
		a.since = claimed.since
	}
	r.has[id] = a
	return a
}

// calling is told when a call of the tool begins.
func (r *reaper) calling(intent int) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = &attempt{seen: mark{Intent: intent}}
	return r.current
}

// recorded reports whether the answer to COMMIT of the call was read.
func (r *reaper) recorded(a *attempt) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return a.seen.Trace.Record.Answered()
}

// at is told that an attempt or a call has come to a point, which note writes into the trace.
func (r *reaper) at(a *attempt, p point, note func(*trace)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	note(&a.seen.Trace)
	r.dieAt(p, a.seen)
}

// begun is told that the publisher was called, and reports whether the process was stopped there.
func (r *reaper) begun(a *attempt) (stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stopped = r.stopAt(stopBegun, a.seen)
	r.dieAt(beforeBegun, a.seen)
	return stopped
}

// sent is told that a request is written. Its answer may have been read by then.
func (r *reaper) sent(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.seen.Trace.Sent = true
	if !a.seen.Trace.Answered && a.seen.Trace.Settle.None() {
		r.dieAt(afterSent, a.seen)
	}
}

// write writes a turn to the server, or what the plan leaves of it.
func (r *reaper) write(w *wire, t turn, b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.last, w.of, w.kind, w.rows, w.settles = nil, nil, t.kind, rows{}, nil
	switch {
	case t.kind == lookTurn:
		r.forget()
		look, before := &attempt{}, idleUnsent
		if len(r.has) > 0 {
			before = ""
		}
		return r.pass(w, look, b, &look.seen.Trace.Look, before, claimedSent)
	case t.kind == settleTurn:
		return r.settle(w, t, b)
	case t.kind == recordTurn && r.current != nil && r.current.seen.Trace.Queued: // not the record of a failure
		seen := &r.current.seen.Trace
		r.dieInside(w, r.current, t.commit, b, &seen.Record, publishPart)
		return r.pass(w, r.current, b, &seen.Record, publishUnsent, publishedSent)
	}
	return w.Conn.Write(b)
}

// forget drops messages whose lease has run out: nobody says what became of them, where the session ended as they were claimed or
// the process was stopped for too long.
func (r *reaper) forget() {
	maps.DeleteFunc(r.has, func(_ toolcall.ID, a *attempt) bool { return time.Since(a.since) > lease })
}

// syncSize is the size of the message that ends a batch, and has the server commit it.
const syncSize = 5

// settle is the turn that writes results. It is seen as one of an attempt that the receiver has answered, if there is one.
func (r *reaper) settle(w *wire, t turn, b []byte) (int, error) {
	var of *attempt
	for id, a := range r.has {
		if !bytes.Contains(b, []byte(id.String())) {
			continue
		}
		w.settles = append(w.settles, id)
		if a.seen.Trace.Begun && (of == nil || a.seen.Trace.Answered) {
			of = a
		}
	}
	if of == nil { // what was given back
		return r.pass(w, &attempt{}, b, &lives.Exchange{}, "", "")
	}
	e := &of.seen.Trace.Settle
	*e = lives.Exchange{Size: len(b)}
	r.stopAt(stopSettling, of.seen)
	r.dieInside(w, of, cmp.Or(t.commit, len(b)-syncSize), b, e, settlingPart)
	before := afterUnsettled
	if !of.seen.Trace.Answered {
		before = ""
	}
	return r.pass(w, of, b, e, before, settlingSent)
}

// dieInside writes a part of a turn, but not its end, if that is the plan.
func (r *reaper) dieInside(w *wire, a *attempt, end int, b []byte, e *lives.Exchange, p point) {
	*e = lives.Exchange{Size: len(b)}
	if r.isDue(p) && r.death.After == 0 && end > 1 {
		var err error
		if e.Written, err = w.Conn.Write(b[:1+int(r.death.Part*float64(end-1))]); err != nil {
			*e = lives.Exchange{Size: len(b)}
			return // the session was ended, and the rest cannot be written either
		}
	}
	r.dieAt(p, a.seen)
}

// pass writes all of a turn, and dies before or after.
func (r *reaper) pass(w *wire, a *attempt, b []byte, e *lives.Exchange, before, after point) (int, error) {
	*e = lives.Exchange{Size: len(b)}
	r.dieAt(before, a.seen)
	w.last, w.of = e, a
	n, err := w.Conn.Write(b)
	if e.Written = n; err == nil {
		r.dieAt(after, a.seen)
	}
	return n, err
}

// read is told what was read of an answer. It belongs to the last turn.
func (r *reaper) read(w *wire, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.last == nil || len(b) == 0 {
		return
	}
	w.last.Read += len(b)
	switch w.kind {
	case lookTurn:
		r.claimed(w, w.rows.ids(b))
	case settleTurn:
		for _, id := range w.settles {
			delete(r.has, id)
		}
	}
}

// claimed takes note of messages that a look has found.
func (r *reaper) claimed(w *wire, ids []toolcall.ID) {
	for _, id := range ids {
		r.has[id] = &attempt{seen: mark{Message: id.String()}, since: time.Now()}
	}
	if len(ids) > 0 {
		seen := w.of.seen
		seen.Message = ids[0].String()
		r.dieAt(claimedRead, seen)
	}
}

// isDue reports whether the process is to die at the point, now or at a later visit.
func (r *reaper) isDue(p point) bool {
	return p != "" && r.death != nil && r.stop == nil && r.death.Point == p && !time.Now().Before(r.awake)
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
	time.Sleep(r.death.Delay)
	r.kill()
}

// stopAt has the process stopped if this is the point, and holds the attempt there until it goes on: from outside, for a
// process that stops itself runs on for a moment.
func (r *reaper) stopAt(p point, seen mark) (stopped bool) {
	switch {
	case r.stop == nil || r.stop.Point != p:
		return false
	case r.stop.After > 0:
		r.stop.After--
		return false
	}
	r.stop = nil
	seen.Point, seen.Stopped = p, true
	r.leave(seen)
	r.mu.Unlock()
	defer r.mu.Lock()
	<-r.goOn
	return true
}

func (r *reaper) leave(seen mark) {
	seen.Has = nil
	for id := range maps.Keys(r.has) {
		seen.Has = append(seen.Has, id.String())
	}
	slices.SortFunc(seen.Has, strings.Compare)
	if line, err := json.Marshal(seen); err == nil {
		_, _ = r.marks.Write(append(line, '\n'))
	}
}
