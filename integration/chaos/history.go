package main

import (
	"slices"
	"sync"
	"time"
)

// op is a call or a question, as the one who made it saw it.
type op struct {
	Agent  int
	Intent int
	Call   time.Duration // since the run began
	Return time.Duration
	Asked  asked
	Said   said
}

// asked is what a call or a question was.
type asked struct {
	Question bool // for the status: nothing is done
	Payload  string
	Try      int
	Breaks   bool
}

// said is what came back.
type said struct {
	Kind     kind
	Try      int    // that did it, where there is an answer
	Run      string // of the handler, where there is an answer and no job
	Text     string // the answer, or the failure, byte for byte
	Replayed bool
	Job      string // in an answer, the id of the job
	Detail   string // for people
}

// kind is what came back, in a word.
type kind string

const (
	succeeded  kind = "succeeded"
	failed     kind = "failed"      // a recorded failure
	inProgress kind = "in progress" // somebody else is at it
	mismatch   kind = "mismatch"    // the key has other arguments
	broke      kind = "broke"       // the handler ran and returned a plain error
	nothing    kind = "nothing"     // nothing was changed, or nothing could be found out
	fault      kind = "fault"       // nothing was changed, and the server takes the tool for broken
	unknown    kind = "unknown"     // nobody knows: no answer, or one that says so
	notEnded   kind = "not ended"   // of a question: there is no record
	strange    kind = "strange"     // must not be
)

func kinds() []kind {
	return []kind{succeeded, failed, inProgress, mismatch, broke, nothing, fault, unknown, notEnded, strange}
}

// ends reports whether it is the answer of the intent.
func (k kind) ends() bool { return k == succeeded || k == failed }

// tells reports whether somebody was there who knew of the call.
func (k kind) tells() bool {
	return k.ends() || k == inProgress || k == mismatch || k == broke
}

// history is all that agents did and saw.
type history struct {
	begin time.Time

	mu  sync.Mutex
	ops []op
}

func newHistory() *history { return &history{begin: time.Now()} }

func (h *history) now() time.Duration { return time.Since(h.begin) }

func (h *history) add(o op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// told reports whether anybody has heard anything of a call that was made at that time or later.
func (h *history) told(since time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range slices.Backward(h.ops) { // in the order of their ends
		if o.Return < since {
			return false
		}
		if o.Call >= since && !o.Asked.Question && o.Said.Kind.tells() {
			return true
		}
	}
	return false
}

// all returns what was done so far.
func (h *history) all() []op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]op(nil), h.ops...)
}
