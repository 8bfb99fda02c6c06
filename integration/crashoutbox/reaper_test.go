package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/toolcall"
)

// died is what a reaper's kill panics with in tests.
type died struct{}

// watched is a reaper with an attempt, whose marks can be read.
func watched(a assignment) (r *reaper, at *attempt, marks *bytes.Buffer) {
	marks = &bytes.Buffer{}
	r = newReaper(a, marks)
	r.kill = func() { panic(died{}) }
	return r, r.delivering(toolcall.ID{7}, 2), marks
}

// dies reports whether visit kills the process.
func dies(visit func()) (dead bool) {
	defer func() {
		if v := recover(); v != nil {
			_, dead = v.(died)
		}
	}()
	visit()
	return false
}

func answeredIt(t *trace) { t.Answered = true }

// left reads the mark that was left.
func left(t *testing.T, marks *bytes.Buffer) mark {
	t.Helper()
	var m mark
	if err := json.Unmarshal(marks.Bytes(), &m); err != nil {
		t.Fatalf("%v: %s", err, marks)
	}
	return m
}

func TestReaper_DiesAtTheVisitThatIsPlanned(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: beforeBegun, After: 2}})
	for visit := range 3 {
		if dies(func() { r.at(at, afterAnswered, func(*trace) {}) }) {
			t.Fatal("it dies elsewhere")
		}
		if got := dies(func() { r.begun(at) }); got != (visit == 2) {
			t.Fatalf("visit %d: it dies: %v", visit, got)
		}
	}
	if m := left(t, marks); !m.proven() || m.Step != atBefore || m.Number != 2 || len(m.Has) != 1 {
		t.Errorf("it leaves %+v", m)
	}
}

func TestReaper_LivesWhileItIsNotAwake(t *testing.T) {
	t.Parallel()
	r, at, _ := watched(assignment{Death: &death{Point: afterAnswered, Awake: time.Hour}})
	if dies(func() { r.at(at, afterAnswered, answeredIt) }) {
		t.Error("it dies too soon")
	}
	if r.awake = time.Now(); !dies(func() { r.at(at, afterAnswered, answeredIt) }) {
		t.Error("it lives on")
	}
}

func TestReaper_ASparedProcessLives(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: beforeBegun}, Stop: &stop{Point: stopBegun}})
	r.hear(spare)
	if dies(func() { r.begun(at) }) || marks.Len() > 0 {
		t.Errorf("it dies, or says something: %s", marks)
	}
}

// TestReaper_IsStoppedFirst: it waits for its parent, and the death is not due before.
func TestReaper_IsStoppedFirst(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: afterAnswered}, Stop: &stop{Point: stopBegun, After: 1}})
	if dies(func() { r.begun(at); r.at(at, afterAnswered, answeredIt) }) || marks.Len() > 0 {
		t.Fatalf("it dies, or says something: %s", marks)
	}
	at = r.delivering(toolcall.ID{7}, 3)
	r.hear(goOn) // else it would wait for it
	if !r.begun(at) || len(r.goOn) > 0 {
		t.Error("it was not stopped")
	}
	if m := left(t, marks); !m.Stopped || !m.proven() || m.Number != 3 {
		t.Errorf("it leaves %+v", m)
	}
	if !dies(func() { r.at(at, afterAnswered, answeredIt) }) {
		t.Error("it lives on for ever")
	}
}

// sink is a connection that counts.
type sink struct {
	net.Conn
	n int
}

func (s *sink) Write(b []byte) (int, error) {
	s.n += len(b)
	return len(b), nil
}

// results is a turn that writes the result of the message.
func results(id toolcall.ID) []byte { return []byte(id.String() + " was delivered ....S") }

// TestReaper_APartOfATurn: not its end.
func TestReaper_APartOfATurn(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: settlingPart, Part: 1}})
	at.seen.Trace.Answered = true
	sent, b := &sink{}, results(toolcall.ID{7})
	if !dies(func() { _, _ = r.write(&wire{Conn: sent}, turn{kind: settleTurn}, b) }) {
		t.Error("it lives")
	}
	if m := left(t, marks); !m.proven() || sent.n != len(b)-syncSize {
		t.Errorf("%d of %d bytes are written, and it leaves %+v", sent.n, len(b), m)
	}
}

// TestReaper_KnowsWhatItHas: from the claim until the answer to the result.
func TestReaper_KnowsWhatItHas(t *testing.T) {
	t.Parallel()
	r, _, marks := watched(assignment{Death: &death{Point: idleUnsent}})
	w := &wire{Conn: &sink{}}
	write := func(k turnKind, b []byte) func() {
		return func() { _, _ = r.write(w, turn{kind: k}, b) }
	}
	other := toolcall.ID{9}
	if dies(write(lookTurn, []byte("look"))) {
		t.Error("it counts as idle when it delivers")
	}
	r.read(w, encodeRow(other[:]))
	if len(r.has) != 2 {
		t.Errorf("it has %v", r.has)
	}
	for _, id := range []toolcall.ID{{7}, other} {
		write(settleTurn, results(id))()
		if dies(write(lookTurn, []byte("look"))) {
			t.Error("it counts as idle while a result is not answered")
		}
		write(settleTurn, results(id))()
		r.read(w, []byte("ok"))
	}
	if !dies(write(lookTurn, []byte("look"))) || !left(t, marks).proven() {
		t.Errorf("it does not count as idle: %s", marks)
	}
}

// TestReaper_ALeaseThatHasRunOutIsNoMore: such a message is another relay's.
func TestReaper_ALeaseThatHasRunOutIsNoMore(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: idleUnsent}})
	at.since = time.Now().Add(-lease - time.Second)
	at = r.delivering(toolcall.ID{7}, 3) // it was claimed then
	if !dies(func() { _, _ = r.write(&wire{Conn: &sink{}}, turn{kind: lookTurn}, []byte("look")) }) || !left(t, marks).proven() {
		t.Errorf("it does not count as idle with %+v", at)
	}
}

// TestReaper_AnAnswerThatIsFasterThanTheNoteOfItsRequest: that request is no place to die at.
func TestReaper_AnAnswerThatIsFasterThanTheNoteOfItsRequest(t *testing.T) {
	t.Parallel()
	r, at, _ := watched(assignment{Death: &death{Point: afterSent}})
	if dies(func() { r.at(at, afterAnswered, answeredIt); r.sent(at) }) {
		t.Error("it dies")
	}
	if at = r.delivering(toolcall.ID{8}, 1); !dies(func() { r.sent(at) }) {
		t.Error("it lives")
	}
}

// encodeRow is a row of the server's with these columns; nil is null.
func encodeRow(columns ...[]byte) []byte {
	var body []byte
	body = binary.BigEndian.AppendUint16(body, uint16(len(columns)))
	for _, c := range columns {
		n := uint32(len(c))
		if c == nil {
			n = 1<<32 - 1
		}
		body = append(binary.BigEndian.AppendUint32(body, n), c...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{dataRow}, uint32(4+len(body))), body...)
}

func TestRows_FindsTheIDs(t *testing.T) {
	t.Parallel()
	one, two := toolcall.ID{1}, toolcall.ID{2}
	bound := []byte{'2', 0, 0, 0, 4}
	all := bytes.Join([][]byte{
		bound, encodeRow(one[:], []byte{1}), encodeRow([]byte("b7"), []byte{0}, nil, nil), encodeRow([]byte("b7"), []byte{0}, two[:]), bound,
	}, nil)
	want := []toolcall.ID{one, two}
	for cut := range len(all) + 1 {
		r := &rows{}
		got := append(r.ids(all[:cut]), r.ids(all[cut:])...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in two parts, the first of %d bytes: %s", cut, diff)
		}
	}
	for name, b := range map[string][]byte{
		"a bad length": {dataRow, 0, 0, 0, 3, 0}, "no columns": {dataRow, 0, 0, 0, 5, 0}, "a column that is too long": encodeRow(one[:])[:20],
	} {
		if got := (&rows{}).ids(b); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
