package main

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is what the history and the database say together.
type verdict struct {
	tally
	by map[mode]*tally // who did it

	complaints []string // one for each of what the tally counts but effects, and what else must not be
}

// tally is what is counted.
type tally struct {
	effects    int
	duplicates int // effects beyond the first of an intent
	lost       int // intents told done without effect, or told failed with one
	wrong      int // answers that are not what was said before, what is stored, or what is true
}

// of returns the tally of a mode.
func (v *verdict) of(m mode) *tally {
	if v.by[m] == nil {
		v.by[m] = &tally{}
	}
	return v.by[m]
}

// sum adds up the modes.
func (v *verdict) sum() {
	for _, t := range v.by {
		v.effects += t.effects
		v.duplicates += t.duplicates
		v.lost += t.lost
		v.wrong += t.wrong
	}
}

// judge compares what was told with what the database says.
func judge(h history, b books) verdict {
	v := verdict{by: make(map[mode]*tally)}
	j := &judgement{
		verdict: &v, tell: sorted(h.told), deaths: make(map[int][]mark), records: make(map[string]record), effects: make(map[int][]string),
	}
	for _, r := range b.records {
		j.records[r.ID] = r
	}
	for _, e := range b.effects {
		j.effects[e.Intent] = append(j.effects[e.Intent], e.Attempt)
		v.of(modeOf(e.Attempt)).effects++
	}
	for _, d := range h.deaths {
		j.deaths[d.Intent] = append(j.deaths[d.Intent], d)
	}
	for _, i := range h.intents {
		j.intent(i)
	}
	if len(b.records) != len(h.intents) {
		v.complain("there are %d records of %d intents", len(b.records), len(h.intents))
	}
	for _, d := range h.deaths {
		j.death(d)
	}
	j.counts(h.intents, b.counts)
	v.sum()
	return v
}

func (v *verdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

type judgement struct {
	*verdict
	tell    map[int][]told // by intent
	deaths  map[int][]mark // by intent
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
		for _, more := range effects[1:] {
			j.of(modeOf(more)).duplicates++
		}
		j.complain("intent %d has %d effects, of attempts %s", i.n, len(effects), strings.Join(effects, ", "))
	}
	var finals []told
	for _, t := range j.tell[i.n] {
		if t.Class.final() {
			finals = append(finals, t)
		} else {
			j.notFinal(i, t, effects)
		}
	}
	if len(finals) == 0 {
		j.unanswered(i)
		return
	}
	j.lostIn(i, finals, effects)
	for _, t := range finals {
		if why := j.wrongFinal(t, finals[0], effects); why != "" {
			j.of(t.Mode).wrong++
			j.complain("intent %d, life %d, %s: %s: %s", i.n, t.Life, t.Mode, why, t.Raw)
		}
	}
}

// lostIn compares what was told with whether there is an effect.
func (j *judgement) lostIn(i intent, finals []told, effects []string) {
	first := func(c class) int { return slices.IndexFunc(finals, func(t told) bool { return t.Class == c }) }
	if n := first(done); n >= 0 && len(effects) == 0 {
		j.of(finals[n].Mode).lost++
		j.complain("intent %d was told done and has no effect", i.n)
	}
	if n := first(failed); n >= 0 && len(effects) > 0 {
		j.of(finals[n].Mode).lost++
		j.complain("intent %d was told failed and has an effect of attempt %s", i.n, effects[0])
	}
}

// unanswered judges an intent without a final answer. Only what is blocked when it is cut off may end like that, and only
// if it was.
func (j *judgement) unanswered(i intent) {
	last := len(j.tell[i.n]) - 1
	switch {
	case i.lost != blocks || last < 0 || j.tell[i.n][last].Class != blocked:
		j.complain("intent %d has no answer in the end", i.n)
	case !j.cutOff(i):
		j.complain("intent %d is blocked and no attempt was cut off", i.n)
	}
}

// cutOff reports whether an attempt died where it leaves a claim, or said itself that it may have had its effect.
func (j *judgement) cutOff(i intent) bool {
	return slices.ContainsFunc(j.deaths[i.n], mark.mayBlock) ||
		slices.ContainsFunc(j.tell[i.n], func(t told) bool { return t.Class == blocked && t.Runs > 0 })
}

// notFinal judges an answer that said "not now". Its own attempt must not have committed, unless it said that it does
// not know.
func (j *judgement) notFinal(i intent, t told, effects []string) {
	switch {
	case t.Class == blocked && i.lost != blocks:
		j.of(t.Mode).wrong++
		j.complain("intent %d, life %d: blocked, and it is not to be: %s", t.Intent, t.Life, t.Error)
	case t.Class == reused:
		j.of(t.Mode).wrong++
		j.complain("intent %d, life %d: its own key is said to be another's", t.Intent, t.Life)
	case t.Class != unknown && t.Class != blocked && slices.ContainsFunc(effects, t.made):
		j.of(t.Mode).wrong++
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
	case stored.State != map[class]string{done: "succeeded", failed: "failed"}[t.Class]:
		return fmt.Sprintf("told %s of what is stored as %s", t.Class, stored.State)
	case t.Class == done && len(effects) > 0 && !slices.Contains(effects, attemptIn(t.Raw)):
		return "the answer is not that of the attempt whose effect is there"
	}
	return ""
}

// death looks for the effect of an attempt that died before COMMIT was written, or, in a leased call, before the effect.
func (j *judgement) death(d mark) {
	before := d.beforeCommit()
	if d.Mode.leased() {
		before = d.Step == atClaim
	}
	if d.Attempt != "" && before && slices.Contains(j.effects[d.Intent], d.Attempt) {
		j.complain("intent %d has an effect of attempt %s, which died at %s", d.Intent, d.Attempt, d.Point)
	}
}

// counts compares the counters with what was counted in them, in the same transactions: effects, or the records of leased
// calls, and effects of calls in a transaction of the caller's.
func (j *judgement) counts(intents []intent, counts map[int]counter) {
	want := make(map[int]counter)
	for _, i := range intents {
		c := want[i.bucket()]
		if i.leased() {
			c.n += j.succeeded(i)
		}
		for _, attempt := range j.effects[i.n] {
			if !i.leased() {
				c.n++
			}
			if modeOf(attempt) == txMode {
				c.outside++
			}
		}
		want[i.bucket()] = c
	}
	for bucket := range buckets {
		if counts[bucket] != want[bucket] {
			j.complain("counter %d is at %+v and should be at %+v: half a transaction is there", bucket, counts[bucket], want[bucket])
		}
	}
}

// succeeded is how many records there are that say so of the intent. Also who was told nothing was told the id.
func (j *judgement) succeeded(i intent) int {
	ids := make(map[string]bool)
	for _, t := range j.tell[i.n] {
		if j.records[t.ID].State == "succeeded" {
			ids[t.ID] = true
		}
	}
	return len(ids)
}
