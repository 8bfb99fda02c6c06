package main

import (
	"encoding/json"
	"maps"
	"slices"
)

// messages compares the ledger with the outbox and with what arrived: each message that committed, none else, under one id
// and one key, and delivered only where the receiver has said so (O03).
func (j *judgement) messages() {
	committed, taken, answered := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, e := range j.books.ledger {
		if committed[e.Name] {
			j.complain("message %s is in the ledger twice", e.Name)
		}
		committed[e.Name] = true
	}
	for _, a := range j.arrivals {
		taken[a.Name] = taken[a.Name] || a.Act.takes()
		answered[a.Name] = answered[a.Name] || a.Act == accepts
	}
	stored := j.stored(committed)
	for _, e := range j.books.ledger {
		switch m, ok := stored[e.Name]; {
		case !taken[e.Name]:
			j.messagesLost++
			j.complain("message %s (intent %d) was published and never arrived: %+v", e.Name, e.Intent, m)
		case !ok:
			j.complain("message %s committed, and is not in the outbox", e.Name)
		case m.State != "delivered":
			j.complain("message %s (%s) is %s in the end, after %d attempts", e.Name, m.ID, m.State, m.Attempts)
		case !answered[e.Name]:
			j.complain("message %s (%s) is said to be delivered, and no delivery of it was answered", e.Name, m.ID)
		}
	}
	j.alike(committed, stored)
}

// stored returns the messages of the outbox by their names.
func (j *judgement) stored(committed map[string]bool) map[string]message {
	stored := make(map[string]message)
	for _, m := range j.books.messages {
		var l letter
		if err := json.Unmarshal([]byte(m.Body), &l); err != nil {
			j.complain("message %s has the body %q: %v", m.ID, m.Body, err)
		}
		if before, twice := stored[l.Name]; twice {
			j.complain("message %s is in the outbox twice, as %s and as %s", l.Name, before.ID, m.ID)
		}
		if !committed[l.Name] {
			j.complain("message %s (%s) is in the outbox, and its transaction did not commit", l.Name, m.ID)
		}
		stored[l.Name] = m
	}
	return stored
}

// alike looks for deliveries that nobody published, or that are not what is stored.
func (j *judgement) alike(committed map[string]bool, stored map[string]message) {
	wrong := make(map[string]string)
	for _, a := range j.arrivals {
		m, ok := stored[a.Name]
		switch {
		case !committed[a.Name]:
			wrong[a.Name] = "arrived, and its transaction did not commit"
		case ok && (a.ID != m.ID || a.Key != m.Key || a.Body != m.Body):
			wrong[a.Name] = "came with another id, key or body than it has"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		j.complain("message %s %s", name, wrong[name])
	}
}

// order looks for messages that came before the one in front of them in their lane was taken and answered. The ledger is in the
// order of lanes and of places in them.
func (j *judgement) order() {
	first, answered := make(map[string]int), make(map[string]int)
	for n, a := range j.arrivals {
		if _, before := first[a.Name]; !before {
			first[a.Name] = n
		}
		if _, before := answered[a.Name]; !before && a.Act == accepts {
			answered[a.Name] = n
		}
	}
	var before entry
	for _, e := range j.books.ledger {
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
		came, ok := first[e.Name]
		if at, was := answered[before.Name]; ok && e.Lane == before.Lane && (!was || at > came) {
			j.complain("message %s, place %d in %s, arrived before %s was taken and answered", e.Name, e.N, e.Lane, before.Name)
		}
		before = e
	}
}
