package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// honest is a history of four intents in which all went well: one wrote, one refused, one killed its workers and one was
// cancelled. An attempt that had lost the first job came back.
func honest() (history, books) {
	h := history{
		intents: []intent{{n: 0, kind: writes}, {n: 1, kind: refuses}, {n: 2, kind: dooms}, {n: 3, kind: cancels}},
		deaths: []mark{
			{Step: atEffect, Point: effectUnsent, Intent: 0, Attempt: "1.1"},
			{Step: atCommitted, Point: committedSent, Intent: 0, Attempt: "3.1"},
		},
		stale:     []stale{{mark: mark{Point: stopCompute, Stopped: true, Intent: 0, Attempt: "2.1"}, late: true}},
		cancelled: map[string]bool{"D": true},
	}
	for n, id := range []string{"A", "B", "C", "D"} {
		h.told = append(h.told, told{answer: answer{Intent: n, Job: id}, Life: 9}, told{answer: answer{Intent: n, Job: id, Replayed: true}, Life: 10})
	}
	b := books{
		jobs: []row{
			{ID: "A", Intent: 0, State: "succeeded", Attempts: 3, By: "3.1", Expires: true},
			{ID: "B", Intent: 1, State: "failed", Code: "refused", Attempts: 1, Expires: true},
			{ID: "C", Intent: 2, State: "failed", Code: "attempts_exhausted", Attempts: doomed, Expires: true},
			{ID: "D", Intent: 3, State: "cancelled", Attempts: 1, Expires: true},
		},
		effects: []effect{{Intent: 0, Job: "A", Attempt: "3.1"}},
		counts:  map[int]int{0: 1, 1: 0, 2: 0, 3: 0},
	}
	return h, b
}

func TestJudge_HonestHistory(t *testing.T) {
	t.Parallel()
	v := judge(honest())
	if v.jobs != 4 || v.executions != 7 || v.effects != 1 || v.duplicates+v.lost+v.stuck > 0 || len(v.complaints) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestJudge_J02_FindsWhatIsWrong: each lie is counted where it belongs, and said.
func TestJudge_J02_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	write := func(b *books, intent int, job, attempt string) {
		b.effects = append(b.effects, effect{intent, job, attempt})
		b.counts[task{Intent: intent}.bucket()]++
	}
	for name, c := range map[string]struct {
		lie                     func(*history, *books)
		duplicates, lost, stuck int
		says                    string
	}{
		"two effects":             {func(_ *history, b *books) { write(b, 0, "A", "4.1") }, 1, 0, 0, "intent 0 has 2 effects"},
		"a failed job's effect":   {func(_ *history, b *books) { write(b, 1, "B", "4.1") }, 1, 0, 0, "intent 1 has 1 effects"},
		"a cancelled one's":       {func(_ *history, b *books) { write(b, 3, "D", "4.1") }, 1, 0, 0, "intent 3 has 1 effects"},
		"no job's":                {func(_ *history, b *books) { write(b, 1, "Z", "4.1") }, 1, 0, 0, "intent 1 has 1 effects"},
		"no effect":               {func(_ *history, b *books) { b.effects, b.counts[0] = nil, 0 }, 0, 1, 0, "has no effect"},
		"another attempt's":       {func(_ *history, b *books) { b.effects[0].Attempt = "4.1" }, 0, 0, 0, "result of attempt 3.1, and an effect of attempt 4.1"},
		"no job":                  {func(_ *history, b *books) { b.jobs = b.jobs[:3] }, 0, 1, 0, "job D, which is not there"},
		"another job":             {func(h *history, _ *books) { h.told[1].Job = "B" }, 0, 0, 0, "job A, and then of job B"},
		"two jobs":                {func(_ *history, b *books) { b.jobs = append(b.jobs, b.jobs[1]) }, 0, 0, 0, "intent 1 has 2 jobs"},
		"nobody's job":            {func(_ *history, b *books) { b.jobs[1].Intent = 8 }, 0, 0, 0, "intent 8, which nobody had"},
		"no answer":               {func(h *history, _ *books) { h.told = h.told[2:] }, 0, 0, 0, "intent 0 has no answer"},
		"an error":                {func(h *history, _ *books) { h.told[0].Error = "odd" }, 0, 0, 0, "unexpected error: odd"},
		"a job that runs":         {func(_ *history, b *books) { b.jobs[2].State = "running" }, 0, 0, 1, "running in the end"},
		"a job that waits":        {func(_ *history, b *books) { b.jobs[2].State = "queued" }, 0, 0, 1, "queued in the end"},
		"cancelled by nobody":     {func(_ *history, b *books) { b.jobs[2].State = "cancelled" }, 0, 0, 0, "(dooms) ended as cancelled"},
		"failed for no reason":    {func(_ *history, b *books) { b.jobs[0].State = "failed"; b.effects, b.counts[0] = nil, 0 }, 0, 0, 0, "(writes) ended as failed"},
		"failed with other words": {func(_ *history, b *books) { b.jobs[2].Code = "refused" }, 0, 0, 0, "failed with"},
		"one attempt too many":    {func(_ *history, b *books) { b.jobs[2].Attempts++ }, 0, 0, 0, "3 attempts, not 2"},
		"cancelled in words only": {func(h *history, _ *books) { h.cancelled["A"] = true }, 0, 0, 0, "told to be cancelled, and succeeded"},
		"kept for ever":           {func(_ *history, b *books) { b.jobs[3].Expires = false }, 0, 0, 0, "job D has ended and is kept for ever"},
		"a record for ever":       {func(_ *history, b *books) { b.held = 1 }, 0, 0, 0, "1 records of calls are kept for ever"},
		"a dead one's effect":     {func(h *history, _ *books) { h.deaths[0].Attempt = "3.1" }, 0, 0, 0, "3.1, which died at effect/unsent"},
		"a late one's effect":     {func(h *history, _ *books) { h.stale[0].Attempt = "3.1" }, 0, 0, 0, "had lost the job"},
		"half a transaction":      {func(_ *history, b *books) { b.counts[2]++ }, 0, 0, 0, "counter 2 is at 1 and should be at 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := honest()
			c.lie(&h, &b)
			v := judge(h, b)
			if v.duplicates != c.duplicates || v.lost != c.lost || v.stuck != c.stuck {
				t.Errorf("duplicates=%d lost=%d stuck=%d, want %d, %d, %d", v.duplicates, v.lost, v.stuck, c.duplicates, c.lost, c.stuck)
			}
			if !slices.ContainsFunc(v.complaints, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("%q is not among %q", c.says, v.complaints)
			}
		})
	}
}

// TestBooks_ChangesBehindTheEnd: what has ended stays as it is.
func TestBooks_ChangesBehindTheEnd(t *testing.T) {
	t.Parallel()
	_, before := honest()
	for name, c := range map[string]struct {
		change func(*books)
		n      int
	}{
		"none":      {func(*books) {}, 0},
		"a state":   {func(b *books) { b.jobs[3].State = "succeeded" }, 1},
		"a result":  {func(b *books) { b.jobs[0].Answer = "{}" }, 1},
		"attempts":  {func(b *books) { b.jobs[0].Attempts++ }, 1},
		"a job":     {func(b *books) { b.jobs = b.jobs[1:] }, 2},
		"an effect": {func(b *books) { b.effects = append(b.effects, effect{}) }, 1},
	} {
		after := books{jobs: slices.Clone(before.jobs), effects: slices.Clone(before.effects), counts: maps.Clone(before.counts)}
		c.change(&after)
		if got := before.changes(after); len(got) != c.n {
			t.Errorf("%s: %q, want %d complaints", name, got, c.n)
		}
	}
}
