package main

import (
	"slices"
	"strings"
	"testing"
)

// The attempt that made intent 0, and the answers of the two intents of the honest history.
const made = "1.0.1/run"

var (
	doneRaw   = string(receipt{Attempt: made, Count: 1}.encode())
	failedRaw = `{"code":"refused","message":"by 1.1.1"}`
)

// honest is a history without a fault: intent 0 was done by life 1 and intent 1 refused, life 2 was told the same, and
// between the two there were answers that do not count.
func honest() (history, books) {
	h := history{
		intents: []intent{{n: 0, kind: writes}, {n: 1, kind: refuses}},
		told: []told{
			{Life: 3, answer: answer{Intent: 0, Call: 0, Class: inProgress, ID: "A"}},
			{Life: 1, answer: answer{Intent: 0, Call: 0, Class: done, Raw: []byte(doneRaw), ID: "A"}},
			{Life: 1, answer: answer{Intent: 1, Call: 1, Class: failed, Raw: []byte(failedRaw), ID: "B"}},
			{Life: 2, answer: answer{Intent: 0, Call: 0, Class: done, Raw: []byte(doneRaw), ID: "A", Replayed: true}},
			{Life: 2, answer: answer{Intent: 1, Call: 1, Class: failed, Raw: []byte(failedRaw), ID: "B", Replayed: true}},
		},
		deaths: []mark{
			{Step: atFinish, Point: finishPart, Intent: 0, Attempt: "4.0.1"},
			{Step: atReply, Point: replyUntold, Intent: 0, Attempt: made},
		},
	}
	b := books{
		effects: []effect{{Intent: 0, Attempt: made}},
		records: []record{
			{ID: "A", State: "succeeded", Answer: []byte(doneRaw)},
			{ID: "B", State: "failed", Answer: []byte(failedRaw)},
		},
		counts: map[int]counter{0: {n: 1}},
	}
	return h, b
}

// say adds an answer of life 9.
func say(h *history, a answer) { h.told = append(h.told, told{Life: 9, answer: a}) }

func TestJudge_R02_I1_I2_I5_CountsEachKindOfViolation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil                   func(*history, *books)
		duplicates, lost, wrong int
		complaint               string
	}{
		"nothing": {spoil: func(*history, *books) {}},
		"a second effect": {
			spoil: func(_ *history, b *books) {
				b.effects = append(b.effects, effect{0, "2.0.1"})
				b.counts[0] = counter{n: 2}
			},
			duplicates: 1, complaint: "intent 0 has 2 effects",
		},
		"a third effect": {
			spoil: func(_ *history, b *books) {
				b.effects = append(b.effects, effect{0, "2.0.1"}, effect{0, "5.0.1"})
				b.counts[0] = counter{n: 3}
			},
			duplicates: 2, complaint: "intent 0 has 3 effects",
		},
		"told done without effect": {
			spoil: func(_ *history, b *books) { b.effects, b.counts = nil, nil },
			lost:  1, complaint: "intent 0 was told done and has no effect",
		},
		"told failed with an effect": {
			spoil: func(_ *history, b *books) {
				b.effects = append(b.effects, effect{1, "1.1.1"})
				b.counts[1] = counter{n: 1}
			},
			lost: 1, complaint: "intent 1 was told failed and has an effect",
		},
		"another answer than before": {
			spoil: func(h *history, _ *books) {
				say(h, answer{Intent: 0, Class: done, Raw: []byte(strings.Replace(doneRaw, made, "9.0.1/run", 1)), ID: "A"})
			},
			wrong: 1, complaint: "not the one that was told before",
		},
		"the same answer in other bytes": {
			spoil: func(h *history, _ *books) {
				say(h, answer{Intent: 0, Class: done, Raw: []byte(strings.ReplaceAll(doneRaw, "\t", " ")), ID: "A"})
			},
			wrong: 1, complaint: "not the one that was told before",
		},
		"failed after done": {
			spoil: func(h *history, _ *books) {
				say(h, answer{Intent: 0, Class: failed, Raw: []byte(failedRaw), ID: "A"})
			},
			wrong: 1, lost: 1, complaint: "not the one that was told before",
		},
		"other answers than the stored one": {
			spoil: func(_ *history, b *books) { b.records[0].Answer = []byte(`"another"`) },
			wrong: 2, complaint: "not the stored one",
		},
		"stored as failed": {
			spoil: func(_ *history, b *books) { b.records[0].State = "failed" },
			wrong: 2, complaint: "told done of what is stored as failed",
		},
		"not stored": {
			spoil: func(_ *history, b *books) { b.records = b.records[1:] },
			wrong: 2, complaint: "nothing is stored",
		},
		"another id": {
			spoil: func(h *history, b *books) {
				say(h, answer{Intent: 0, Class: done, Raw: []byte(doneRaw), ID: "C"})
				b.records = append(b.records, record{ID: "C", State: "succeeded", Answer: []byte(doneRaw)})
			},
			wrong: 1, complaint: "another id",
		},
		"the effect of another attempt": {
			spoil: func(_ *history, b *books) { b.effects[0].Attempt = "2.0.1" },
			wrong: 2, complaint: "not that of the attempt whose effect is there",
		},
		"released, but committed": {
			spoil: func(h *history, _ *books) { h.told[0] = told{Life: 1, answer: answer{Intent: 0, Class: released}} },
			wrong: 1, complaint: "told released of an attempt that committed",
		},
		"in progress, but committed": {
			spoil: func(h *history, _ *books) { h.told[0] = told{Life: 1, answer: answer{Intent: 0, Class: inProgress}} },
			wrong: 1, complaint: "told in_progress of an attempt that committed",
		},
		"unknown, and committed": {
			spoil: func(h *history, _ *books) { h.told[0] = told{Life: 1, answer: answer{Intent: 0, Class: unknown}} },
		},
		"the key of another": {
			spoil: func(h *history, _ *books) { say(h, answer{Intent: 0, Class: reused}) },
			wrong: 1, complaint: "its own key",
		},
		"an error that nobody expects": {
			spoil:     func(h *history, _ *books) { say(h, answer{Intent: 0, Class: other, Error: "what?"}) },
			complaint: "unexpected error: what?",
		},
		"no answer in the end": {
			spoil: func(h *history, _ *books) {
				h.told = slices.DeleteFunc(h.told, func(t told) bool { return t.Intent == 1 })
			},
			complaint: "intent 1 has no answer",
		},
		"a record of nothing": {
			spoil:     func(_ *history, b *books) { b.records = append(b.records, record{ID: "D"}) },
			complaint: "3 records of 2 intents",
		},
		"an effect of who died before COMMIT": {
			spoil:     func(h *history, _ *books) { h.deaths[0].Attempt = made },
			complaint: "which died at finish/part",
		},
		"half a transaction": {
			spoil:     func(_ *history, b *books) { b.counts = nil },
			complaint: "half a transaction",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := honest()
			c.spoil(&h, &b)
			checkVerdict(t, h, b, tally{duplicates: c.duplicates, lost: c.lost, wrong: c.wrong}, c.complaint)
		})
	}
}

// checkVerdict judges, and compares the figures but for the effects. A complaint is wanted if there is text for it.
func checkVerdict(t *testing.T, h history, b books, want tally, complaint string) {
	t.Helper()
	got := judge(h, b)
	want.effects = got.effects
	all := strings.Join(got.complaints, "\n")
	if got.tally != want {
		t.Errorf("got %+v, want %+v\n%s", got.tally, want, all)
	}
	if (complaint == "") != (all == "") || !strings.Contains(all, complaint) {
		t.Errorf("complaints %q, want %q", all, complaint)
	}
	h.deaths = append(h.deaths, killed(1, 1, 1, 1, 1).deaths...)
	if r := newReport(options{modes: []mode{runMode}}, h, b, 0); r.Good() != (complaint == "") {
		t.Errorf("good: %v; %q", r.Good(), r.problems)
	}
}
