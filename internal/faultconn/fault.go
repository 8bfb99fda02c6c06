package faultconn

import "encoding/binary"

// Fault is what happens to one write, and to the connection behind it.
type Fault struct {
	// Write picks the write. Defaults to the next one.
	Write func(b []byte) bool

	// Pass says how many bytes of the write the server gets. Defaults to all of them.
	Pass func(b []byte) int

	// Then says what becomes of the connection behind those bytes. Defaults to Cut.
	Then Then

	// Told lets the write report that it failed, and how many bytes passed. Otherwise it seems to succeed, as a write does
	// that ends in the system's buffer, and the next read is the one that fails.
	Told bool
}

// Then is what becomes of a connection.
type Then int

// The ends of a connection.
const (
	// Cut closes it: the server sees the end of the stream behind what it got.
	Cut Then = iota
	// CutAtAnswer closes it when the server's answer has begun to come in, of which the client sees nothing.
	CutAtAnswer
	// Stall leaves it open and silent, in both directions: a half-open network.
	Stall
)

// Nothing is a [Fault].Pass that keeps back the whole write.
func Nothing([]byte) int { return 0 }

// AllBut is a [Fault].Pass that keeps back the last messages of the write. pgx ends each round trip with a Sync, and the
// message in front of it has the server execute the last statement; in the simple protocol it is one message in all.
func AllBut(messages int) func(b []byte) int {
	return func(b []byte) int {
		var starts []int
		each(b, func(_ byte, at int) { starts = append(starts, at) })
		starts = append(starts, len(b))
		return starts[max(0, len(starts)-1-messages)]
	}
}

// Executes is a [Fault].Write for writes that have the server run something, beyond preparing it.
func Executes(b []byte) bool {
	found := false
	each(b, func(kind byte, _ int) { found = found || kind == 'E' || kind == 'Q' })
	return found
}

// each calls fn with the type and the place of each whole message in b.
func each(b []byte, fn func(kind byte, at int)) {
	for at := 0; at+5 <= len(b); {
		size := 1 + int64(binary.BigEndian.Uint32(b[at+1:]))
		if size < 5 || size > int64(len(b)-at) {
			return
		}
		fn(b[at], at)
		at += int(size)
	}
}

// isCancel reports whether b is a cancel request: a packet of its own, on a connection of its own.
func isCancel(b []byte) bool {
	const code = 1234<<16 | 5678
	return len(b) == 16 && binary.BigEndian.Uint32(b) == 16 && binary.BigEndian.Uint32(b[4:]) == code
}
