package main

import "github.com/txonce/txonce/integration/internal/lives"

// mark is what a process leaves behind when it dies or is stopped: where it was. It is written before that, and by what was
// seen there rather than by what was planned.
type mark struct {
	Step    step
	Point   point
	Stopped bool // it is to be stopped, and to live on
	Intent  int
	Job     string // its id, where there is an attempt
	Number  int    // of the attempt, as the job counts
	Attempt string // its name, which is not another's
	Trace   trace
}

// trace is what was seen of an attempt, or of a call.
type trace struct {
	Begin     exchange // what begins an attempt: of any job, the attempt is not known yet
	Computed  bool     // the compute half is about to return
	Open      exchange // what opens the transaction of the commit half
	Locked    bool     // the commit function was called
	Statement exchange // the slow form of the effect
	Written   bool     // the effect is written
	Finish    exchange // the last batch
	Heard     exchange // what tells River

	Submitted bool     // SubmitTx has returned
	Record    exchange // the call's last batch
	Returned  bool     // the call has returned, nothing is told
}

// exchange is one round trip, in bytes.
type exchange = lives.Exchange

// proven reports whether the process was where it says.
func (m mark) proven() bool {
	t := m.Trace
	if m.Stopped {
		return m.Step == "" && m.Attempt != "" && m.stopProven()
	}
	switch {
	case m.Step == "" || stepOf(m.Point) != m.Step:
		return false
	case m.Step == atSubmit || m.Step == atSubmitted:
		return m.serverProven()
	case m.Step == atBegin:
		return m.Point == beginUnsent && t.Begin.Unsent() || m.Point == beginSent && t.Begin.Sent()
	}
	return m.Attempt != "" && m.workerProven()
}

func (m mark) workerProven() bool {
	t := m.Trace
	inside, finishing := t.Locked && t.Finish.None(), t.Locked && t.Written
	switch m.Point {
	case computeBegun:
		return !t.Computed && !t.Locked
	case computeDone:
		return t.Computed && !t.Locked
	case commitLocked:
		return inside && !t.Written && t.Statement.None()
	case commitInside:
		return inside && !t.Written && t.Statement.Sent()
	case effectWritten:
		return inside && t.Written
	case effectUnsent:
		return finishing && t.Finish.Unsent()
	case effectPart:
		return finishing && t.Finish.Partly()
	case committedSent, committedSlow:
		return finishing && t.Finish.Sent()
	case committedUnheard:
		return finishing && t.Finish.Answered() && t.Heard.Unsent()
	}
	return false
}

func (m mark) serverProven() bool {
	t := m.Trace
	switch m.Point {
	case submitQueued:
		return t.Submitted && t.Record.None()
	case submitUnsent:
		return t.Submitted && t.Record.Unsent()
	case submitPart:
		return t.Submitted && t.Record.Partly()
	case submittedSent:
		return t.Submitted && t.Record.Sent()
	case submittedUntold:
		return t.Submitted && t.Record.Answered() && t.Returned
	}
	return false
}

func (m mark) stopProven() bool {
	t := m.Trace
	switch m.Point {
	case stopCompute:
		return t.Computed && !t.Locked
	case stopOpen:
		return t.Computed && !t.Locked && t.Open.Unsent()
	case stopEffect:
		return t.Locked && t.Written && t.Finish.Unsent()
	}
	return false
}

// beforeCommit reports whether the attempt cannot have committed: COMMIT was not written.
func (m mark) beforeCommit() bool { return m.Step != atCommitted && m.Step != atSubmitted }
