package main

import "github.com/txonce/txonce/integration/internal/lives"

// mark is what a process leaves behind when it dies or is stopped: where it was. It is written before that, and by what was
// seen there rather than by what was planned.
type mark struct {
	Step    step
	Point   point
	Stopped bool     // it is to be stopped, and to live on
	Intent  int      // of a server
	Message string   // the id of the one that it is about, of a relay
	Number  int      // of the attempt
	Has     []string // ids of all messages that the relay has claimed and not settled
	Trace   trace
}

// trace is what was seen of an attempt, of a look for messages, or of a call.
type trace struct {
	Look     lives.Exchange // what claims messages, of any
	Begun    bool           // the publisher was called
	Sent     bool           // the request is written
	Answered bool           // its answer is read
	Settle   lives.Exchange // what writes the result, among others

	Queued   bool           // PublishTx has returned
	Record   lives.Exchange // the call's last batch
	Returned bool           // the call has returned, nothing is told
}

// proven reports whether the process was where it says.
func (m mark) proven() bool {
	switch {
	case m.Stopped:
		return m.Step == "" && m.Message != "" && m.stopProven()
	case m.Step == "" || stepOf(m.Point) != m.Step:
		return false
	case m.Step == atPublish || m.Step == atPublished:
		return m.Message == "" && m.serverProven()
	}
	return m.relayProven()
}

func (m mark) relayProven() bool {
	t := m.Trace
	begun := m.Message != "" && t.Begun
	switch m.Point {
	case idleUnsent:
		return t.Look.Unsent() && len(m.Has) == 0
	case claimedSent:
		return t.Look.Sent()
	case claimedRead:
		return t.Look.Answered() && m.Message != "" && len(m.Has) > 0
	case beforeBegun:
		return begun && !t.Sent && !t.Answered && t.Settle.None()
	case afterSent:
		return begun && t.Sent && !t.Answered && t.Settle.None()
	case afterAnswered:
		return begun && t.Answered && t.Settle.None()
	case afterUnsettled:
		return begun && t.Answered && t.Settle.Unsent()
	case settlingPart:
		return begun && t.Settle.Partly()
	case settlingSent:
		return begun && t.Settle.Sent()
	}
	return false
}

func (m mark) serverProven() bool {
	t := m.Trace
	switch m.Point {
	case publishQueued:
		return t.Queued && t.Record.None()
	case publishUnsent:
		return t.Queued && t.Record.Unsent()
	case publishPart:
		return t.Queued && t.Record.Partly()
	case publishedSent:
		return t.Queued && t.Record.Sent()
	case publishedUntold:
		return t.Queued && t.Record.Answered() && t.Returned
	}
	return false
}

func (m mark) stopProven() bool {
	t := m.Trace
	switch m.Point {
	case stopBegun:
		return t.Begun && !t.Sent && t.Settle.None()
	case stopSettling:
		return t.Begun && t.Settle.Unsent()
	}
	return false
}
