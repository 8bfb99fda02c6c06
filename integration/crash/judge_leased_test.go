package main

import (
	"testing"
)

// cutOff is a history of three leased intents whose first attempts were killed, without a fault: what was asked for was
// found, what runs again was charged once, and what is blocked is so for everybody.
func cutOff() (history, books) {
	raw := func(attempt string) []byte { return receipt{Attempt: attempt}.encode() }
	say := func(life, intent int, c class, id string, raw []byte) told {
		return told{Life: life, answer: answer{Mode: leasedMode, Intent: intent, Class: c, ID: id, Raw: raw}}
	}
	h := history{
		intents: []intent{{n: 0, kind: writes, lost: asks}, {n: 1, kind: writes, lost: reruns}, {n: 2, kind: writes, lost: blocks}},
		told: []told{
			say(4, 2, inProgress, "C", nil),
			say(5, 0, unknown, "A", nil),
			say(6, 0, done, "A", raw("1.0.1/leased")),
			say(6, 1, done, "B", raw("2.0.1/leased")),
			say(6, 2, blocked, "C", nil),
		},
		deaths: []mark{
			{Mode: leasedMode, Step: atHandler, Point: betweenTwo, Intent: 0, Attempt: "1.0.1/leased"},
			{Mode: leasedMode, Step: atFinish, Point: finishUnsent, Intent: 1, Attempt: "2.0.1/leased"},
			{Mode: leasedMode, Step: atHandler, Point: betweenTwo, Intent: 2, Attempt: "3.0.1/leased"},
		},
	}
	b := books{
		effects: []effect{{0, "1.0.1/leased"}, {1, "2.0.1/leased"}, {2, "3.0.1/leased"}},
		records: []record{
			{ID: "A", State: "succeeded", Answer: raw("1.0.1/leased")},
			{ID: "B", State: "succeeded", Answer: raw("2.0.1/leased")},
			{ID: "C", State: "running"},
		},
		counts: map[int]counter{0: {n: 1}, 1: {n: 1}},
	}
	return h, b
}

func TestJudge_R02_R18_WhatACutOffCallMayLeave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil     func(*history, *books)
		want      tally
		complaint string
	}{
		"nothing": {spoil: func(*history, *books) {}},
		"blocked without an effect": {
			spoil: func(_ *history, b *books) { b.effects = b.effects[:2] },
		},
		"blocked, and recorded late": {
			spoil: func(_ *history, b *books) {
				b.records[2].State, b.counts[2] = "succeeded", counter{n: 1}
			},
		},
		"blocked by its own error": {
			spoil: func(h *history, _ *books) { h.deaths, h.told[4].Runs = h.deaths[:2], 1 },
		},
		"blocked for no reason": {
			spoil:     func(h *history, _ *books) { h.deaths = h.deaths[:2] },
			complaint: "intent 2 is blocked and no attempt was cut off",
		},
		"blocked by who claimed nothing": {
			spoil: func(h *history, _ *books) {
				h.deaths[2] = mark{Mode: leasedMode, Step: atClaim, Point: claimUnsent, Intent: 2}
			},
			complaint: "intent 2 is blocked and no attempt was cut off",
		},
		"in progress in the end": {
			spoil:     func(h *history, _ *books) { h.told[4].Class = inProgress },
			complaint: "intent 2 has no answer in the end",
		},
		"blocked where it asks": {
			spoil: func(h *history, _ *books) { h.told[1].Class = blocked },
			want:  tally{wrong: 1}, complaint: "it is not to be",
		},
		"told done of what is running": {
			spoil: func(h *history, _ *books) {
				h.told = append(h.told, told{Life: 7, answer: answer{Mode: leasedMode, Intent: 2, Class: done, ID: "C"}})
			},
			want: tally{wrong: 1}, complaint: "told done of what is stored as running",
		},
		"charged twice": {
			spoil: func(_ *history, b *books) { b.effects = append(b.effects, effect{2, "8.0.1/leased"}) },
			want:  tally{duplicates: 1}, complaint: "intent 2 has 2 effects",
		},
		"charged before the handler began": {
			spoil:     func(h *history, _ *books) { h.deaths[0].Step, h.deaths[0].Point = atClaim, claimHeld },
			complaint: "which died at claim/held",
		},
		"counted without a record": {
			spoil:     func(_ *history, b *books) { b.counts[2] = counter{n: 1} },
			complaint: "counter 2 is at",
		},
		"recorded without a count": {
			spoil:     func(_ *history, b *books) { b.counts[0] = counter{} },
			complaint: "counter 0 is at",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := cutOff()
			c.spoil(&h, &b)
			checkVerdict(t, h, b, c.want, c.complaint)
		})
	}
}

// TestJudge_R18_WhatACallerWritesItselfCommitsWithTheEffect: there are as many of both.
func TestJudge_R18_WhatACallerWritesItselfCommitsWithTheEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		counted   counter
		complaint string
	}{
		"both":       {counter{1, 1}, ""},
		"one":        {counter{1, 0}, "half a transaction"},
		"the others": {counter{1, 2}, "half a transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const attempt = "1.0.1/tx"
			raw := receipt{Attempt: attempt}.encode()
			checkVerdict(t, history{
				intents: []intent{{n: 0}},
				told:    []told{{Life: 1, answer: answer{Mode: txMode, Class: done, ID: "A", Raw: raw}}},
			}, books{
				effects: []effect{{0, attempt}}, records: []record{{ID: "A", State: "succeeded", Answer: raw}},
				counts: map[int]counter{0: c.counted},
			}, tally{}, c.complaint)
		})
	}
}
