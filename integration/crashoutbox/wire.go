package main

import (
	"encoding/binary"
	"net"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/internal/pgturns"
	"github.com/txonce/txonce/toolcall"
)

// mostConns bounds the connections of a process.
const mostConns = 6

// applicationName is how the sessions of relays and servers are known.
const applicationName = "txonce-crash-outbox"

// wire is a connection that knows what is being written of a look, of results or of a call. All but the scanner is the
// reaper's to read and write.
type wire struct {
	net.Conn
	reaper  *reaper
	scanner pgturns.Scanner

	last    *lives.Exchange // that the next answer belongs to; nil if it is none of ours
	of      *attempt
	kind    turnKind
	rows    rows          // of the answer
	settles []toolcall.ID // whose results were written last
}

// Write passes a turn on, or as much of it as the process lives to write. pgx writes each turn at once.
func (w *wire) Write(b []byte) (int, error) {
	seen := w.scanner.Turn(b)
	return w.reaper.write(w, turn{kind: kindOf(seen), commit: seen.CommitAt}, b)
}

// Read passes on what the server says.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.reaper.read(w, b[:max(n, 0)])
	return n, err
}

// turn is one write of a client.
type turn struct {
	kind   turnKind
	commit int // where the message begins that makes the server commit; 0 if there is none
}

type turnKind int

const (
	otherTurn  turnKind = iota // connecting, preparing, sweeping, a handler's statements
	lookTurn                   // looks for messages
	settleTurn                 // writes down what came of attempts
	recordTurn                 // ends a call with COMMIT
)

// By these texts the turns are known, beside those of package pgturns.
const (
	lookText   = "attempts = p.attempts + 1, token ="
	settleText = "as s (id, token"
)

func kindOf(seen pgturns.Turn) turnKind {
	switch {
	case seen.Records() && seen.Commits:
		return recordTurn
	case seen.Has(lookText):
		return lookTurn
	case seen.Has(settleText):
		return settleTurn
	}
	return otherTurn
}

// rows reads the ids of messages from the answer to a look.
type rows struct{ rest []byte }

// dataRow is the type of the server's message that has a row.
const dataRow = 'D'

// ids returns those in what was read now, as far as it is complete.
func (r *rows) ids(b []byte) (found []toolcall.ID) {
	r.rest = append(r.rest, b...)
	for len(r.rest) >= 5 {
		size := 1 + int64(binary.BigEndian.Uint32(r.rest[1:]))
		if size < 5 || size > int64(len(r.rest)) {
			break
		}
		if r.rest[0] == dataRow {
			if id, ok := firstID(r.rest[5:size]); ok {
				found = append(found, id)
			}
		}
		r.rest = r.rest[size:]
	}
	return found
}

// firstID returns the first column of a row that is as long as an id. In front of it there is an ordering key at most, and those are
// short.
func firstID(row []byte) (id toolcall.ID, ok bool) {
	if len(row) < 2 {
		return id, false
	}
	for row = row[2:]; len(row) >= 4; {
		n := int(int32(binary.BigEndian.Uint32(row)))
		row = row[4:]
		if n > len(row) {
			return id, false
		}
		if n == len(id) {
			return toolcall.ID(row[:n]), true
		}
		row = row[max(n, 0):]
	}
	return id, false
}
