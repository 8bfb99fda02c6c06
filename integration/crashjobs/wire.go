package main

import (
	"net"

	"github.com/txonce/txonce/internal/pgturns"
)

// mostConns bounds the connections of a process: two workers, the sweeper, and what River needs.
const mostConns = 8

// applicationName is how the sessions of workers and servers are known.
const applicationName = "txonce-crash-jobs"

// wire is a connection that knows which turn of a job or a call is being written.
type wire struct {
	net.Conn
	reaper  *reaper
	scanner pgturns.Scanner
	last    *exchange // that the next answer belongs to; nil if it is none of ours. The reaper's to read and write
	of      *attempt
}

// Write passes a turn on, or as much of it as the process lives to write. pgx writes each turn at once.
func (w *wire) Write(b []byte) (int, error) {
	seen := w.scanner.Turn(b)
	return w.reaper.write(w, turn{kind: kindOf(seen), commit: seen.CommitAt}, b)
}

// Read passes on what the server says.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.reaper.read(w, n)
	return n, err
}

// turn is one write of a client.
type turn struct {
	kind   turnKind
	commit int // where the message begins that makes the server commit; 0 if there is none
}

type turnKind int

const (
	otherTurn  turnKind = iota // connecting, preparing, renewing leases, sweeping, River's own
	beginTurn                  // begins an attempt
	openTurn                   // opens the transaction of a commit half
	slowTurn                   // the effect, in its slow form
	finishTurn                 // ends a job with COMMIT
	heardTurn                  // River writes down what became of doorbells
	recordTurn                 // ends the call that submits a job, with COMMIT
)

// By these texts the turns are known, beside those of package pgturns.
const (
	beginText  = "attempts = attempts + 1"
	openText   = "set_config('txonce.lock_timeout'"
	slowText   = "from pg_sleep"
	finishText = "'TXJ01'"
	heardText  = "JobSetStateIfRunningMany"
)

func kindOf(seen pgturns.Turn) turnKind {
	switch {
	case seen.Has(finishText) && seen.Commits:
		return finishTurn
	case seen.Records() && seen.Commits:
		return recordTurn
	case seen.Has(openText):
		return openTurn
	case seen.Has(beginText) && seen.Commits:
		return beginTurn
	case seen.Has(slowText):
		return slowTurn
	case seen.Has(heardText):
		return heardTurn
	}
	return otherTurn
}
