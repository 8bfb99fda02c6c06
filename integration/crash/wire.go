package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
)

// wire is a connection that knows which turn of a call is being written.
type wire struct {
	net.Conn
	reaper  *reaper
	scanner scanner
}

// Write passes a turn on, or as much of it as the worker lives to write. pgx writes each turn at once.
func (w *wire) Write(b []byte) (int, error) {
	return w.reaper.write(w.Conn, w.scanner.turn(b), b)
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

// By these the turns of a call are known.
const (
	claimText  = "set_config('txonce.attempt'"
	finishText = "insert into \"txonce\".call"
	slowText   = "pg_sleep"
)

// scanner reads the client's messages of one connection, as far as it takes to know which SQL they execute.
type scanner struct {
	started  bool              // the first packet, which has no type, is through
	prepared map[string]string // SQL by the name of the statement
}

func (s *scanner) turn(b []byte) turn {
	if !s.started {
		s.started = true
		return turn{}
	}
	var t turn
	for at := 0; at+5 <= len(b); {
		size := 1 + int(binary.BigEndian.Uint32(b[at+1:]))
		if at+size > len(b) {
			break
		}
		if sql, ok := s.executes(b[at], b[at+5:at+size]); ok {
			t.add(sql, at)
		}
		at += size
	}
	return t
}

// executes returns the SQL that a message makes the server execute.
func (s *scanner) executes(kind byte, body []byte) (sql string, ok bool) {
	switch kind {
	case 'P': // Parse: name, SQL
		name, rest := cut(body)
		sql, _ = cut(rest)
		if s.prepared == nil {
			s.prepared = make(map[string]string)
		}
		s.prepared[name] = sql
		return "", false
	case 'B': // Bind: portal, name. pgx executes what it binds.
		_, rest := cut(body)
		name, _ := cut(rest)
		return s.prepared[name], true
	case 'Q': // Query
		sql, _ = cut(body)
		return sql, true
	}
	return "", false
}

// cut takes a string that ends with a zero byte from b.
func cut(b []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), rest
}

// add says what a statement makes of the turn. Turn 1 and the last batch are known by one of their statements.
func (t *turn) add(sql string, at int) {
	switch {
	case strings.Contains(sql, claimText):
		t.kind = claimTurn
	case strings.Contains(sql, finishText):
		t.kind = finishTurn
	case t.kind == claimTurn || t.kind == finishTurn:
	case strings.Contains(sql, slowText):
		t.kind = slowTurn
	default:
		t.kind = statementTurn
	}
	if strings.EqualFold(strings.TrimSpace(sql), "commit") {
		t.commit = at
	}
}
