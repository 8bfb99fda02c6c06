package txidemtest

import (
	"fmt"
	"strings"

	"github.com/txonce/txonce/internal/pgturns"
)

// turn is a round trip of a call, as it was seen in one that went well.
type turn struct {
	name     string
	commits  bool
	partly   bool // there is something in front of COMMIT
	claims   bool
	reads    bool // it commits what only read: the claim above READ COMMITTED
	refusals []string
}

// shape is what a call looks like from outside.
type shape struct {
	turns      []turn
	statements int // of the handler
	ended      int // how many of them have a known end
}

// seenTurn is a round trip on the wire.
type seenTurn struct {
	pgturns.Turn
	claimed bool // it belongs to the transaction of a claim
}

// named gives the turns of a call their names.
func named(seen []seenTurn) []turn {
	turns := make([]turn, 0, len(seen))
	statements := 0
	for _, s := range seen {
		t := turn{claims: s.Claims(), commits: s.Commits, partly: s.Commits && s.CommitAt > 0}
		switch {
		case s.Claims() && s.Records() && s.Commits:
			t.name, t.refusals = "the whole call", []string{codeSerialization, codeDiskFull}
		case s.Claims():
			t.name, t.reads = "the claim", true
		case s.Records() && s.Commits:
			t.name, t.refusals = "the record and commit", []string{codeSerialization, codeDiskFull}
		case s.Records():
			t.name, t.refusals = "the record", []string{codeSerialization, codeDiskFull}
		case s.Commits:
			t.name = "commit"
		case len(s.SQL) == 1 && isControl(s.SQL[0]):
			t.name = strings.ToLower(strings.Fields(s.SQL[0])[0])
		default:
			statements++
			t.name, t.refusals = fmt.Sprintf("statement %d", statements), []string{codeSerialization, codeDiskFull}
			if isOwn(s.Turn) {
				t.refusals = nil
			}
			if !s.claimed {
				t.name += " outside tx"
			}
		}
		turns = append(turns, t)
	}
	return turns
}

// isOwn reports whether a turn outside a claim looks like one of the library's: it reads a record, or looks for an outcome.
func isOwn(t pgturns.Turn) bool {
	for _, text := range []string{`".call`, "txonce.attempt", "pg_advisory_xact_lock", "pg_is_in_recovery", "pg_logical_emit_message", "pg_locks"} {
		if t.Has(text) {
			return true
		}
	}
	return len(t.SQL) == 1 && isControl(t.SQL[0])
}

// isControl reports whether a statement begins or ends a transaction and does nothing else.
func isControl(sql string) bool {
	first, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(sql)), " ")
	return first == "begin" || first == "commit" || first == "rollback"
}
