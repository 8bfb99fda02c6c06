package main

import (
	"net"
	"sync/atomic"

	"github.com/txonce/txonce/internal/pgturns"
)

// wire is a connection that knows which turn of a call is being written.
type wire struct {
	net.Conn
	reaper  *reaper
	scanner pgturns.Scanner
	counts  atomic.Bool // the last turn was one of the call
}

// Write passes a turn on, or as much of it as the worker lives to write. pgx writes each turn at once.
func (w *wire) Write(b []byte) (int, error) {
	t := turnOf(w.scanner.Turn(b))
	w.counts.Store(t.kind != otherTurn)
	return w.reaper.write(w.Conn, t, b)
}

// Read passes on what the server says.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if w.counts.Load() {
		w.reaper.read(n)
	}
	return n, err
}

// turn is one write of a client.
type turn struct {
	kind   turnKind
	commit int   // where the message begins that makes the server commit; 0 if there is none
	parts  parts // of a wholeTurn
}

type turnKind int

const (
	otherTurn     turnKind = iota // connecting, preparing, renewing a lease
	claimTurn                     // turn 1 of a call, or the take-over of a lease
	statementTurn                 // a statement, such as one of the handler
	slowTurn                      // a statement that sleeps
	finishTurn                    // the record, with COMMIT but in a caller's transaction
	commitTurn                    // COMMIT without a record
	wholeTurn                     // all of a batch
)

// By these texts the turns are known, beside those of package pgturns.
const (
	slowText     = "pg_sleep"                                                  // a handler that sleeps
	leaseText    = "leased, lease_until)"                                      // RunLeased claims
	takeOverText = "attempt = $2::uuid, fingerprint = "                        // RunLeased takes a lease over
	renewText    = "as l (id, attempt, secs)"                                  // RunLeased renews leases
	leaseEndText = "lease_until = null"                                        // RunLeased records
	reserveText  = "returning ctid::text"                                      // RunTx takes its place, under SERIALIZABLE
	recordTxText = "attempt = current_setting('txonce.attempt')::uuid, answer" // and records there
)

// turnOf says what a write is to the reaper.
func turnOf(seen pgturns.Turn) turn {
	t := turn{kind: kindOf(seen)}
	if seen.Commits {
		t.commit = seen.CommitAt
	}
	if record := seen.Find(pgturns.RecordText); t.kind == wholeTurn && record+1 < len(seen.At) {
		t.parts = parts{Record: seen.At[record], Effects: seen.At[record+1], Commit: t.commit}
	}
	return t
}

func kindOf(seen pgturns.Turn) turnKind {
	switch {
	case seen.Has(renewText), seen.Has(reserveText):
		return otherTurn
	case seen.Has(leaseText), seen.Has(takeOverText):
		return claimTurn
	case seen.Claims() && seen.Records() && seen.Commits:
		return wholeTurn
	case seen.Records(), seen.Has(leaseEndText), seen.Has(recordTxText):
		return finishTurn
	case seen.Claims():
		return claimTurn
	case seen.Commits:
		return commitTurn
	case seen.Has(slowText):
		return slowTurn
	case seen.Executes():
		return statementTurn
	}
	return otherTurn
}
