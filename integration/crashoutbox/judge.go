package main

import (
	"fmt"
	"maps"
	"slices"
)

// verdict is what the history and the database say together.
type verdict struct {
	messages   int // of the ledger
	deliveries int
	distinct   int // messages among the deliveries
	lost       int // messages of the ledger that the receiver never took
	outOfOrder int // messages that arrived before the one in front of them was taken and answered
	wrongKey   int // messages whose deliveries differ, or which share a key or a name

	complaints []string // one for each of the last three, and what else must not be
}

func (v *verdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

type judgement struct {
	*verdict
	h       history
	b       books
	ledger  map[string]entry // by name
	named   map[string][]int // arrivals by name, as places in the history
	byID    map[string][]int
	outbox  map[string]message // by id
	intents map[int]intent
}

// judge compares what arrived and what was told with what the database says.
func judge(h history, b books) verdict {
	v := verdict{messages: len(b.ledger), deliveries: len(h.arrivals)}
	j := &judgement{
		verdict: &v, h: h, b: b, ledger: make(map[string]entry), named: make(map[string][]int), byID: make(map[string][]int),
		outbox: make(map[string]message), intents: make(map[int]intent),
	}
	for _, i := range h.intents {
		j.intents[i.N] = i
	}
	for n, a := range h.arrivals {
		j.named[a.Name] = append(j.named[a.Name], n)
		j.byID[a.ID] = append(j.byID[a.ID], n)
	}
	v.distinct = len(j.byID)
	j.lists()
	j.arrived()
	j.order()
	j.keys()
	j.attempts()
	j.together()
	j.runs()
	j.answers()
	return v
}

// lists compares the ledger with the outbox.
func (j *judgement) lists() {
	published := make(map[string]int)
	for _, m := range j.b.messages {
		published[nameIn(m.Body)]++
		j.outbox[m.ID] = m
	}
	for _, e := range j.b.ledger {
		if _, twice := j.ledger[e.Name]; twice {
			j.complain("message %s is in the ledger twice", e.Name)
		}
		j.ledger[e.Name] = e
		if n := published[e.Name]; n != 1 {
			j.complain("message %s committed, and the outbox has %d of it", e.Name, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(published)) {
		if _, ok := j.ledger[name]; !ok {
			j.complain("message %s is in the outbox, and its transaction did not commit", name)
		}
	}
	if j.b.pending > 0 {
		j.complain("%d messages are pending in the end", j.b.pending)
	}
}

// arrived looks for messages that did not arrive, for some that nobody published, and for some that are said to be delivered
// although the receiver did not say so (O01, O03).
func (j *judgement) arrived() {
	for _, e := range j.b.ledger {
		if !j.any(e.Name, act.takes) {
			j.lost++
			j.complain("message %s was published and never arrived", e.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.named)) {
		if _, ok := j.ledger[name]; !ok {
			j.complain("message %s arrived, and its transaction did not commit", name)
		}
	}
	for _, m := range j.b.messages {
		name := nameIn(m.Body)
		switch {
		case m.State != "delivered":
			j.complain("message %s (%s) is %s in the end, after %d attempts", name, m.ID, m.State, m.Attempts)
		case !j.any(name, accepts.is):
			j.complain("message %s (%s) is said to be delivered, and the receiver never said so", name, m.ID)
		}
	}
}

func (a act) is(b act) bool { return a == b }

// any reports whether there is such an arrival of the message.
func (j *judgement) any(name string, is func(act) bool) bool {
	return slices.ContainsFunc(j.named[name], func(n int) bool { return is(j.h.arrivals[n].Act) })
}

// order looks for messages that arrived too soon (O02). The ledger is in the order of lanes and of places in them.
func (j *judgement) order() {
	var before entry
	for _, e := range j.b.ledger {
		if e.Lane == "" {
			continue
		}
		want := 1
		if e.Lane == before.Lane {
			want = before.N + 1
		}
		if e.N != want {
			j.complain("message %s has place %d in %s, and behind the one before that should be %d", e.Name, e.N, e.Lane, want)
		}
		if first, came := j.first(e.Name); came && e.Lane == before.Lane && !j.answered(before.Name, first) {
			j.outOfOrder++
			j.complain("message %s, place %d in %s, arrived before %s was taken and answered", e.Name, e.N, e.Lane, before.Name)
		}
		before = e
	}
}

// first is the first arrival of a message.
func (j *judgement) first(name string) (n int, came bool) {
	if len(j.named[name]) == 0 {
		return 0, false
	}
	return j.named[name][0], true
}

// answered reports whether a message was taken and answered before another one arrived.
func (j *judgement) answered(name string, by int) bool {
	return slices.ContainsFunc(j.named[name], func(n int) bool { return n < by && j.h.arrivals[n].Act == accepts })
}

// keys looks for messages whose deliveries differ from each other or from what is stored, and for two that share a key or a name (O01).
func (j *judgement) keys() {
	has := make(map[string]string) // the id that a key or a name was seen with
	for _, id := range slices.Sorted(maps.Keys(j.byID)) {
		first := j.h.arrivals[j.byID[id][0]]
		wrong := ""
		for _, n := range j.byID[id] {
			if a := j.h.arrivals[n]; !a.same(first) {
				wrong = fmt.Sprintf("came as %s and as %s", first.short(), a.short())
			}
		}
		if stored, ok := j.outbox[id]; ok && wrong == "" && !first.same(stored.arrival()) {
			wrong = fmt.Sprintf("came as %s and is stored as %s", first.short(), stored.arrival().short())
		}
		for _, mark := range []string{"key " + first.Key, "name " + first.Name} {
			if other := has[mark]; other != "" && wrong == "" {
				wrong = fmt.Sprintf("has the %s, and so has message %s", mark, other)
			}
			has[mark] = id
		}
		if wrong != "" {
			j.wrongKey++
			j.complain("message %s %s", id, wrong)
		}
	}
}

// same reports whether two deliveries are alike but for the attempt.
func (a arrival) same(b arrival) bool {
	return a.ID == b.ID && a.Key == b.Key && a.Body == b.Body && a.OrderingKey == b.OrderingKey && a.Destination == b.Destination && a.Intent == b.Intent
}

func (a arrival) short() string {
	return fmt.Sprintf("%s (key %q, ordering key %q, %d bytes, to %s, for intent %s)", a.Name, a.Key, a.OrderingKey, len(a.Body), a.Destination, a.Intent)
}

// arrival is the delivery that a message should be.
func (m message) arrival() arrival {
	return arrival{
		ID: m.ID, Name: nameIn(m.Body), Destination: m.Destination, Key: m.Key, OrderingKey: m.OrderingKey, Intent: m.Intent, Body: string(m.Body),
	}
}

// attempts looks for two deliveries in one attempt, which two relays would make that have the same message, and for attempts that
// nobody counted (O03).
func (j *judgement) attempts() {
	type attempt struct {
		id     string
		number int
	}
	seen := make(map[attempt]bool)
	for _, a := range j.h.arrivals {
		if seen[attempt{a.ID, a.Attempt}] {
			j.complain("message %s (%s) came twice in attempt %d", a.Name, a.ID, a.Attempt)
		}
		seen[attempt{a.ID, a.Attempt}] = true
		if m, ok := j.outbox[a.ID]; ok && a.Attempt > m.Attempts {
			j.complain("message %s (%s) came in attempt %d, and %d were counted", a.Name, a.ID, a.Attempt, m.Attempts)
		}
	}
}

// together looks for a delivery that came while an earlier attempt of the message waited for its answer: until then that has the
// lease (O03). An earlier attempt may come beside a later one: its relay was stopped before it sent anything, for longer than its
// lease, and cannot know.
func (j *judgement) together() {
	for _, id := range slices.Sorted(maps.Keys(j.byID)) {
		for _, n := range j.byID[id] {
			a := j.h.arrivals[n]
			if a.Act != slow && a.Act != late {
				continue
			}
			for _, m := range j.byID[id] {
				if b := j.h.arrivals[m]; b.Attempt > a.Attempt && b.sentAt().After(a.sentAt()) && b.sentAt().Before(a.Until) {
					j.complain("message %s (%s) came in attempt %d while attempt %d waited for its answer", a.Name, id, b.Attempt, a.Attempt)
				}
			}
		}
	}
}

// runs looks for calls whose handler has committed more than once, or in part, or where it had failed.
func (j *judgement) runs() {
	runs := make(map[int]map[string]int) // messages by intent and run
	for _, e := range j.b.ledger {
		if runs[e.Intent] == nil {
			runs[e.Intent] = make(map[string]int)
		}
		runs[e.Intent][e.Run]++
	}
	for _, i := range j.h.intents {
		of := runs[i.N]
		for run, n := range of {
			if n != len(i.Messages) {
				j.complain("run %s of intent %d published %d messages, not %d", run, i.N, n, len(i.Messages))
			}
		}
		switch {
		case i.Fails && len(of) > 0:
			j.complain("intent %d failed, and published", i.N)
		case !i.Fails && i.Way != plainTx && len(of) != 1:
			j.complain("intent %d was published by %d runs", i.N, len(of))
		}
	}
}

// answers looks at what the callers were told.
func (j *judgement) answers() {
	committed := make(map[string]bool)
	for _, e := range j.b.ledger {
		committed[e.Run] = true
	}
	heard := make(map[int]bool)
	for _, t := range j.h.told {
		i, known := j.intents[t.Intent]
		heard[t.Intent] = true
		switch {
		case !known:
			j.complain("life %d tells of intent %d, which nobody had", t.Life, t.Intent)
		case t.Error != "":
			j.complain("intent %d, life %d: unexpected error: %s", t.Intent, t.Life, t.Error)
		case t.Failed != i.Fails:
			j.complain("intent %d, life %d: it should fail: %v, and it did: %v", t.Intent, t.Life, i.Fails, t.Failed)
		case t.Run != "" && !committed[t.Run]:
			j.complain("intent %d, life %d: run %s was said to be done, and nothing of it is there", t.Intent, t.Life, t.Run)
		}
	}
	for _, i := range j.h.intents {
		if !heard[i.N] {
			j.complain("intent %d has no answer in the end", i.N)
		}
	}
}
