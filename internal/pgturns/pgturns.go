// Package pgturns reads what a Postgres client writes, as far as it takes to know which turn of a protected call it is.
//
//	w.scanner.Turn(b) // in the Write of a net.Conn that pgx got from AfterNetConnect
//
// A [Scanner] belongs to one connection, and a [Turn] says what one write makes the server execute: a claim, a record, a
// COMMIT and at which byte that begins, or other statements. It knows the claim and the record by their SQL, so that it is
// right about all ways to run, also where one turn is several of these.
//
// # What is true of it
//
//   - pgx writes each round trip with one call of Write. What is split over two writes is not recognised: rows of CopyFrom
//     are, and execute nothing.
//   - What only prepares statements executes nothing. So does an empty statement, such as a ping.
//   - It must see plain text: a connection with TLS from inside of it, as AfterNetConnect does.
//
// It is for tests, and may import the standard library only.
package pgturns

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// By these texts the turns of a call are known, in every schema.
const (
	// ClaimText is in the statement that takes a call's claim.
	ClaimText = "set_config('txonce.attempt'"
	// RecordText is in the statement that writes a call's record, also one of a failure.
	RecordText = `".call (id, scope, tool, key, `
)

// Scanner reads the client's messages of one connection. The zero value is ready for a connection of which nothing is
// written yet. It is for one goroutine at a time.
type Scanner struct {
	started  bool              // the first packet, which has no type, is through
	prepared map[string]string // SQL by the name of the statement
}

// Turn is what one write makes the server execute. The zero value is a write that executes nothing.
type Turn struct {
	SQL      []string // in order
	At       []int    // the bytes at which the messages begin that have them
	Commits  bool     // one of the statements is COMMIT
	CommitAt int      // the byte at which the message begins that has the last COMMIT in it, where Commits is true
}

// Turn returns what the write of b makes the server execute.
func (s *Scanner) Turn(b []byte) Turn {
	if !s.started {
		s.started = true
		return Turn{}
	}
	var t Turn
	for at := 0; at+5 <= len(b); {
		size := 1 + int64(binary.BigEndian.Uint32(b[at+1:]))
		if size < 5 || size > int64(len(b)-at) {
			break
		}
		for _, sql := range s.executes(b[at], b[at+5:at+int(size)]) {
			t.add(sql, at)
		}
		at += int(size)
	}
	return t
}

// Executes reports whether the server executes anything.
func (t Turn) Executes() bool { return len(t.SQL) > 0 }

// Claims reports whether the turn takes the claim of a call.
func (t Turn) Claims() bool { return t.Has(ClaimText) }

// Records reports whether the turn writes the record of a call.
func (t Turn) Records() bool { return t.Has(RecordText) }

// Has reports whether text is in one of the statements.
func (t Turn) Has(text string) bool {
	return t.Find(text) >= 0
}

// Find returns the number of the first statement that has text in it, or -1.
func (t Turn) Find(text string) int {
	return slices.IndexFunc(t.SQL, func(sql string) bool { return strings.Contains(sql, text) })
}

// Is reports whether one of the statements is this one, in letters of any case.
func (t Turn) Is(statement string) bool {
	for _, sql := range t.SQL {
		if strings.EqualFold(sql, statement) {
			return true
		}
	}
	return false
}

func (t *Turn) add(sql string, at int) {
	sql = strings.TrimSpace(sql)
	if sql == "" || strings.HasPrefix(sql, "--") && !strings.Contains(sql, "\n") {
		return
	}
	t.SQL, t.At = append(t.SQL, sql), append(t.At, at)
	if strings.EqualFold(sql, "commit") {
		t.Commits, t.CommitAt = true, at
	}
}

// executes returns the SQL that a message makes the server execute.
func (s *Scanner) executes(kind byte, body []byte) []string {
	switch kind {
	case 'P': // Parse: name, SQL
		name, rest := cut(body)
		sql, _ := cut(rest)
		if s.prepared == nil {
			s.prepared = make(map[string]string)
		}
		s.prepared[name] = sql
	case 'B': // Bind: portal, name. pgx executes what it binds.
		_, rest := cut(body)
		name, _ := cut(rest)
		return []string{s.prepared[name]}
	case 'Q': // Query. pgx sends a batch as one text in the simple protocol.
		sql, _ := cut(body)
		return statements(sql)
	}
	return nil
}

// statements takes a text apart at its semicolons. One inside a string gives pieces that are no statements, which is good
// enough to know turns by.
func statements(sql string) []string {
	return strings.Split(sql, ";")
}

// cut takes a string that ends with a zero byte from b.
func cut(b []byte) (string, []byte) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), rest
}
