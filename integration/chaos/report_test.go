package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aResult is that of a run with enough of everything.
func aResult() *result {
	return &result{
		o:       options{time: wholeTime, rate: 75},
		events:  events{kills: map[role]int{server: 10, worker: 11, relay: 12}, stops: map[role]int{server: 1, worker: 1, relay: 1}, leaves: map[role]int{server: 1, worker: 1, relay: 1}, db: make([]time.Duration, 10), begun: time.Second, over: 11 * time.Second},
		stormed: 500, told: 125, did: map[act]int{accepts: 1, breaks: 1, cuts: 1},
	}
}

func TestReport_R19_NeedsKillsAndCalls(t *testing.T) {
	t.Parallel()
	if found := aResult().shortfalls(); len(found) > 0 {
		t.Errorf("shortfalls: %q; want none", found)
	}
	for want, change := range map[string]func(*result){
		"9 kills of servers":      func(r *result) { r.events.kills[server]-- },
		"9 kills of workers":      func(r *result) { r.events.kills[worker] -= 2 },
		"9 kills of relays":       func(r *result) { r.events.kills[relay] -= 3 },
		"9 kills of the database": func(r *result) { r.events.db = r.events.db[1:] },
		"49.9 calls a second":     func(r *result) { r.stormed-- },
		"of 24 % of the calls":    func(r *result) { r.told = 120 },
		"no relay was stopped":    func(r *result) { delete(r.events.stops, relay) },
		"no server left":          func(r *result) { delete(r.events.leaves, server) },
		"no delivery was cut":     func(r *result) { delete(r.did, cuts) },
	} {
		r := aResult()
		change(r)
		if found := r.shortfalls(); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("shortfalls: %q; want %q", found, want)
		}
	}
}

// TestReport_R19_RateIsOfWholeRuns: how fast a shorter one is says more about the machine, which it shares with other tests. But
// something has to be said in it.
func TestReport_R19_RateIsOfWholeRuns(t *testing.T) {
	t.Parallel()
	r := aResult()
	r.o.time, r.stormed, r.told = wholeTime-1, 100, 1
	if found := r.shortfalls(); len(found) > 0 {
		t.Errorf("shortfalls: %q; want none", found)
	}
	r.told = 0
	if found := r.shortfalls(); len(found) != 1 || !strings.Contains(found[0], "no server said anything") {
		t.Errorf("shortfalls: %q; want that nothing was said", found)
	}
}

// withAnAnswer is a history with one answer.
func withAnAnswer() *history {
	h := newHistory()
	h.add(at(5, 12, try(1), by(1)))
	return h
}

// TestStorm_R19_GoesOnUntilEnoughWasKilled of each kind.
func TestStorm_R19_GoesOnUntilEnoughWasKilled(t *testing.T) {
	t.Parallel()
	enough := func(change func(*events)) bool {
		r := aResult()
		change(&r.events)
		return (&storm{o: r.o, events: r.events, history: withAnAnswer()}).enough()
	}
	if (&storm{o: aResult().o, events: aResult().events, history: newHistory()}).enough() {
		t.Error("it does not go on, and no server has said anything")
	}
	if !enough(func(*events) {}) {
		t.Error("it goes on, and there were enough kills")
	}
	r := aResult()
	s := &storm{o: r.o, events: r.events, history: newHistory()}
	s.o.time = time.Millisecond
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.extend(t.Context())
	}()
	for !s.extended.Load() {
		time.Sleep(time.Millisecond)
	}
	if s.wants(s.killed(database)) || !s.wants(s.o.least()-1) {
		t.Error("what is killed then is not what there was too little of")
	}
	s.history.add(at(5, 12, try(1), by(1)))
	<-over
	for what, change := range map[string]func(*events){
		"server":   func(e *events) { e.kills[server] = 9 },
		"worker":   func(e *events) { e.kills[worker] = 9 },
		"relay":    func(e *events) { delete(e.kills, relay) },
		"database": func(e *events) { e.db = e.db[1:] },
		"stops":    func(e *events) { delete(e.stops, worker) },
		"leaves":   func(e *events) { delete(e.leaves, server) },
	} {
		if enough(change) {
			t.Errorf("%s: it does not go on", what)
		}
	}
}

func TestReport_R19_IsGoodOnlyWithoutAny(t *testing.T) {
	t.Parallel()
	if r := aResult(); !r.Good() {
		t.Error("a good run is not good")
	}
	for what, change := range map[string]func(*result){
		"duplicates": func(r *result) { r.duplicates = 1 },
		"lost":       func(r *result) { r.lost = 1 },
		"wrong":      func(r *result) { r.wrongAnswers = 1 },
		"stuck":      func(r *result) { r.jobsStuck = 1 },
		"messages":   func(r *result) { r.messagesLost = 1 },
		"problems":   func(r *result) { r.problems = []string{"a problem"} },
	} {
		r := aResult()
		change(r)
		if r.Good() {
			t.Errorf("%s: a bad run is good", what)
		}
	}
}

func TestReport_LastLine(t *testing.T) {
	t.Parallel()
	r := aResult()
	r.intents, r.calls, r.verdict = 1, 2, verdict{effects: 3, duplicates: 4, lost: 5, wrongAnswers: 6, jobsStuck: 7, messagesLost: 8}
	want := "chaos: intents=1 calls=2 kills=server:10,worker:11,relay:12,db:10 effects=3 duplicates=4 lost=5 wrong_answers=6 jobs_stuck=7 messages_lost=8"
	if diff := cmp.Diff(want, r.lastLine()); diff != "" {
		t.Error(diff)
	}
}

// TestHistory_Told: of calls that were made since, and of no questions.
func TestHistory_Told(t *testing.T) {
	t.Parallel()
	h := newHistory()
	for _, o := range []op{at(5, 12, try(1), by(1)), at(13, 14, try(2), heard(nothing)), at(13, 15, question, by(1)), at(9, 16, try(3), by(3))} {
		h.add(o)
	}
	for since, want := range map[time.Duration]bool{0: true, 5: true, 9: true, 10: false, 13: false, 100: false} {
		if got := h.told(since); got != want {
			t.Errorf("since %d: %v, want %v", since, got, want)
		}
	}
}

// TestReport_Recoveries: what counts is a call that was made behind the kill, and answered.
func TestReport_Recoveries(t *testing.T) {
	t.Parallel()
	got := recoveries([]time.Duration{10, 100, 1000}, []op{
		at(5, 12, try(1), by(1)),
		at(11, 13, try(2), heard(nothing)),
		at(11, 14, question, by(1)),
		at(12, 40, try(3), again(1)),
		at(13, 30, try(4), again(1)),
		at(100, 105, try(5), again(1)),
	})
	if diff := cmp.Diff([]time.Duration{5, 20}, got); diff != "" {
		t.Error(diff)
	}
}
