package main

import (
	"net"

	"github.com/txonce/txonce/internal/pgturns"
)

// wire is a connection that knows which turn of a call is being written.
type wire struct {
	net.Conn
	reaper  *reaper
	scanner pgturns.Scanner
}

// Write passes a turn on, or as much of it as the worker lives to write. pgx writes each turn at once.
func (w *wire) Write(b []byte) (int, error) {
	return w.reaper.write(w.Conn, turnOf(w.scanner.Turn(b)), b)
}

// Read passes on what the server says.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.reaper.read(n)
	return n, err
}

// turn is one write of a client.
type turn struct {
	kind   turnKind
	commit int // where the message begins that makes the server commit; 0 if there is none
}

type turnKind int

const (
	otherTurn     turnKind = iota // connecting, preparing
	claimTurn                     // turn 1 of a call
	statementTurn                 // a statement, such as one of the handler
	slowTurn                      // a statement that sleeps
	finishTurn                    // the record and COMMIT
)

// slowText is in the statement of a handler that sleeps.
const slowText = "pg_sleep"

// turnOf says what a write is to the reaper. Turn 1 and the last batch are known by one of their statements.
func turnOf(seen pgturns.Turn) turn {
	var t turn
	switch {
	case seen.Records():
		t.kind = finishTurn
	case seen.Claims():
		t.kind = claimTurn
	case seen.Has(slowText):
		t.kind = slowTurn
	case seen.Executes():
		t.kind = statementTurn
	}
	if seen.Commits {
		t.commit = seen.CommitAt
	}
	return t
}
