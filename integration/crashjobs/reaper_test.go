package main

import (
	"bytes"
	"encoding/json"
	"net"
	"testing"

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
	return r, r.attempting(toolcall.ID{7}, 1, "1.1", 3), marks
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

func nothing(*trace) {}

func TestReaper_DiesAtTheVisitThatIsPlanned(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: computeDone, After: 2}})
	for visit := range 3 {
		if dies(func() { r.at(at, computeBegun, nothing) }) {
			t.Fatal("it dies elsewhere")
		}
		if got := dies(func() { r.at(at, computeDone, func(t *trace) { t.Computed = true }) }); got != (visit == 2) {
			t.Fatalf("visit %d: it dies: %v", visit, got)
		}
	}
	var left mark
	if err := json.Unmarshal(marks.Bytes(), &left); err != nil || !left.proven() || left.Intent != 3 || left.Step != atCompute {
		t.Errorf("%v: it leaves %s", err, marks)
	}
}

func TestReaper_ASparedProcessLives(t *testing.T) {
	t.Parallel()
	r, at, _ := watched(assignment{Death: &death{Point: computeBegun}, Stop: &stop{Point: stopCompute}})
	r.hear(spare)
	if dies(func() { r.at(at, computeBegun, nothing); r.at(at, computeDone, nothing) }) {
		t.Error("it dies")
	}
	if !dies(func() { r.doom(at, commitLocked, nothing) }) {
		t.Error("a job that kills it does not")
	}
}

// TestReaper_IsStoppedFirst: it waits for its parent, and the death is not due before.
func TestReaper_IsStoppedFirst(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: computeBegun}, Stop: &stop{Point: stopCompute, After: 1}})
	computed := func(t *trace) { t.Computed = true }
	if dies(func() { r.at(at, computeBegun, nothing); r.at(at, computeDone, computed) }) || marks.Len() > 0 {
		t.Fatalf("it dies, or says something: %s", marks)
	}
	r.hear(goOn) // else it would wait for it
	if dies(func() { r.at(at, computeDone, computed) }) || len(r.goOn) > 0 {
		t.Error("it dies, or did not wait")
	}
	var left mark
	if err := json.Unmarshal(marks.Bytes(), &left); err != nil || !left.Stopped || !left.proven() {
		t.Errorf("%v: it leaves %s", err, marks)
	}
	if !dies(func() { r.at(at, computeBegun, nothing) }) {
		t.Error("it lives on for ever")
	}
}

// TestReaper_APointThatIsMade counts its visits too.
func TestReaper_APointThatIsMade(t *testing.T) {
	t.Parallel()
	r, _, _ := watched(assignment{Death: &death{Point: commitInside, After: 1}})
	got := []bool{r.comes(committedSlow), r.comes(commitInside), r.wants(commitInside), r.comes(commitInside)}
	if diff := cmp.Diff([]bool{false, false, true, true}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReaper_APartOfATurn: not its COMMIT.
func TestReaper_APartOfATurn(t *testing.T) {
	t.Parallel()
	r, at, marks := watched(assignment{Death: &death{Point: effectPart, Part: 0.5}})
	at.seen.Trace = trace{Computed: true, Locked: true, Written: true}
	id := toolcall.ID{7}
	sent := &sink{}
	b := append(id[:], "the end of the job, and COMMIT"...)
	if !dies(func() { _, _ = r.write(&wire{Conn: sent}, turn{kind: finishTurn, commit: 40}, b) }) {
		t.Error("it lives")
	}
	var left mark
	if err := json.Unmarshal(marks.Bytes(), &left); err != nil || !left.proven() || sent.n == 0 || sent.n >= 40 {
		t.Errorf("%v: %d bytes are written, and it leaves %s", err, sent.n, marks)
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
