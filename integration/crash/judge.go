package main

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is what the history and the database say together.
type verdict struct {
	effects    int
	duplicates int // effects beyond the first of an intent
	lost       int // intents told done without effect, or told failed with one
	wrong      int // answers that are not what was said before, what is stored, or what is true

	complaints []string // one for each of the above, and what else must not be
}

// judge compares what was told with what the database says.
func judge(h history, b books) verdict {
	v := verdict{effects: len(b.effects)}
	j := &judgement{verdict: &v, tell: sorted(h.told), records: make(map[string]record), effects: make(map[int][]string)}
	for _, r := range b.records {
		j.records[r.ID] = r
	}
	for _, e := range b.effects {
		j.effects[e.Intent] = append(j.effects[e.Intent], e.Attempt)
	}
	for _, i := range h.intents {
		j.intent(i)
	}
	if len(b.records) != len(h.intents) {
		v.complain("there are %d records of %d intents", len(b.records), len(h.intents))
	}
	j.deaths(h.deaths)
	j.counts(h.intents, b.counts)
	return v
}

func (v *verdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

type judgement struct {
	*verdict
	tell    map[int][]told // by intent
	records map[string]record
	effects map[int][]string // attempts by intent
}

func sorted(all []told) map[int][]told {
	by := make(map[int][]told)
	for _, t := range all {
		by[t.Intent] = append(by[t.Intent], t)
	}
	return by
}

func (j *judgement) intent(i intent) {
	effects := j.effects[i.n]
	if len(effects) > 1 {
		j.duplicates += len(effects) - 1
		j.complain("intent %d has %d effects, of attempts %s", i.n, len(effects), strings.Join(effects, ", "))
	}
	var finals []told
	for _, t := range j.tell[i.n] {
		if t.Class.final() {
			finals = append(finals, t)
		} else {
			j.notFinal(t, effects)
		}
	}
	if len(finals) == 0 {
		j.complain("intent %d has no answer in the end", i.n)
		return
	}
	says := func(c class) bool { return slices.ContainsFunc(finals, func(t told) bool { return t.Class == c }) }
	switch {
	case says(done) && len(effects) == 0:
		j.lost++
		j.complain("intent %d was told done and has no effect", i.n)
	case says(failed) && len(effects) > 0:
		j.lost++
		j.complain("intent %d was told failed and has an effect of attempt %s", i.n, effects[0])
	}
	for _, t := range finals {
		if why := j.wrongFinal(t, finals[0], effects); why != "" {
			j.wrong++
			j.complain("intent %d, life %d: %s: %s", i.n, t.Life, why, t.Raw)
		}
	}
}

// notFinal judges an answer that said "not now". Its own attempt must not have committed, unless it said that it does
// not know.
func (j *judgement) notFinal(t told, effects []string) {
	switch {
	case t.Class == reused:
		j.wrong++
		j.complain("intent %d, life %d: its own key is said to be another's", t.Intent, t.Life)
	case t.Class != unknown && slices.ContainsFunc(effects, t.made):
		j.wrong++
		j.complain("intent %d, life %d: told %s of an attempt that committed", t.Intent, t.Life, t.Class)
	case t.Class == other:
		j.complain("intent %d, life %d: unexpected error: %s", t.Intent, t.Life, t.Error)
	}
}

// made reports whether the attempt is one of the call that was answered.
func (t told) made(attempt string) bool {
	return strings.HasPrefix(attempt, attemptPrefix(t.Life, t.Call))
}

// wrongFinal says what is wrong with a final answer, or nothing.
func (j *judgement) wrongFinal(t, first told, effects []string) string {
	stored, ok := j.records[t.ID]
	switch {
	case t.Class != first.Class || string(t.Raw) != string(first.Raw):
		return "the answer is not the one that was told before"
	case t.ID != first.ID:
		return "the call has another id than before"
	case !ok:
		return "nothing is stored of the answer"
	case string(t.Raw) != string(stored.Answer):
		return "the answer is not the stored one"
	case (t.Class == failed) != (stored.State == "failed"):
		return fmt.Sprintf("told %s of what is stored as %s", t.Class, stored.State)
	case t.Class == done && len(effects) > 0 && !slices.Contains(effects, attemptIn(t.Raw)):
		return "the answer is not that of the attempt whose effect is there"
	}
	return ""
}

// deaths looks for effects of attempts that died before COMMIT was written.
func (j *judgement) deaths(deaths []mark) {
	for _, d := range deaths {
		if d.Attempt != "" && d.beforeCommit() && slices.Contains(j.effects[d.Intent], d.Attempt) {
			j.complain("intent %d has an effect of attempt %s, which died at %s", d.Intent, d.Attempt, d.Point)
		}
	}
}

// counts compares the counters with the effects that were counted in them, in the same transactions.
func (j *judgement) counts(intents []intent, counts map[int]int) {
	want := make(map[int]int)
	for _, i := range intents {
		want[i.bucket()] += len(j.effects[i.n])
	}
	for bucket := range buckets {
		if counts[bucket] != want[bucket] {
			j.complain("counter %d is at %d and has %d effects: half a transaction is there", bucket, counts[bucket], want[bucket])
		}
	}
}
