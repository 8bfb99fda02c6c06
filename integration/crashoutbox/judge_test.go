package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// honest is a history of four intents in which all went well: one message without an order, that came twice, two of one
// ordering key, the first of which was refused once, and a call that failed.
func honest() (history, books) {
	h := history{
		intents: []intent{
			{N: 0, Way: countFirst, Messages: []address{{Destination: broker}}},
			{N: 1, Way: atOnce, Messages: []address{{broker, "b0"}}},
			{N: 2, Way: plainTx, Messages: []address{{broker, "b0"}}},
			{N: 3, Way: countLast, Messages: []address{{Destination: broker}}, Fails: true},
		},
		told: []told{
			{answer{Intent: 0, Run: "1.1"}, 1},
			{answer{Intent: 0, Run: "1.1", Replayed: true}, 2},
			{answer{Intent: 1, Run: "1.2"}, 1},
			{answer{Intent: 2, Run: "2.1"}, 2},
			{answer{Intent: 3, Failed: true}, 2},
		},
	}
	b := books{
		ledger: []entry{
			{Name: "0/1.1/0", Intent: 0, Run: "1.1", Destination: broker},
			{Name: "1/1.2/0", Intent: 1, Run: "1.2", Destination: broker, Lane: "broker/b0", N: 1},
			{Name: "2/2.1/0", Intent: 2, Run: "2.1", Destination: broker, Lane: "broker/b0", N: 2},
		},
	}
	for n, id := range []string{"A", "B", "C"} {
		e := b.ledger[n]
		m := message{ID: id, Destination: broker, Key: "key-" + id, Intent: e.Name[:1], Body: bodyOf(e.Name), State: "delivered", Attempts: 3}
		if n > 0 {
			m.OrderingKey = "b0"
		}
		b.messages = append(b.messages, m)
	}
	arrive := func(n, attempt int, what act) {
		a := b.messages[n].arrival()
		a.Attempt, a.Act = attempt, what
		h.arrivals = append(h.arrivals, a)
	}
	arrive(0, 1, cuts)
	arrive(1, 1, busy)
	arrive(0, 2, accepts)
	arrive(1, 2, accepts)
	arrive(2, 1, accepts)
	arrive(1, 3, late)
	return h, b
}

func TestJudge_HonestHistory(t *testing.T) {
	t.Parallel()
	v := judge(honest())
	if v.messages != 3 || v.deliveries != 6 || v.distinct != 3 || v.lost+v.outOfOrder+v.wrongKey > 0 || len(v.complaints) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestJudge_O03_StoppedRelaySendsLate: its attempt comes while the one that took over waits, which no lease can keep from happening.
func TestJudge_O03_StoppedRelaySendsLate(t *testing.T) {
	t.Parallel()
	h, b := honest()
	later, earlier := &h.arrivals[0], &h.arrivals[2]
	later.Attempt, later.Act, later.Until = 2, slow, later.At.Add(2*time.Second)
	earlier.Attempt, earlier.At = 1, later.At.Add(time.Second)
	if v := judge(h, b); len(v.complaints) > 0 {
		t.Errorf("%q", v.complaints)
	}
}

// without leaves out the arrivals of a message.
func without(h *history, id string) {
	h.arrivals = slices.DeleteFunc(slices.Clone(h.arrivals), func(a arrival) bool { return a.ID == id })
}

// TestJudge_O01_O02_O03_FindsWhatIsWrong: each lie is counted where it belongs, and said.
func TestJudge_O01_O02_O03_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie                    func(*history, *books)
		lost, outOfOrder, keys int
		says                   string
	}{
		"no arrival":             {func(h *history, _ *books) { without(h, "A") }, 1, 0, 0, "0/1.1/0 was published and never arrived"},
		"refused only":           {func(h *history, _ *books) { h.arrivals[4].Act = breaks }, 1, 0, 0, "2/2.1/0 was published and never arrived"},
		"not in the outbox":      {func(_ *history, b *books) { b.messages = b.messages[1:] }, 0, 0, 0, "the outbox has 0 of it"},
		"twice in the outbox":    {func(_ *history, b *books) { b.messages = append(b.messages, b.messages[0]) }, 0, 0, 0, "the outbox has 2 of it"},
		"twice in the ledger":    {func(_ *history, b *books) { b.ledger = append(b.ledger[:1:1], b.ledger...) }, 0, 0, 0, "in the ledger twice"},
		"rolled back":            {func(_ *history, b *books) { b.ledger = b.ledger[1:] }, 0, 0, 0, "0/1.1/0 arrived, and its transaction did not commit"},
		"rolled back, stored":    {func(h *history, b *books) { b.ledger = b.ledger[1:]; without(h, "A") }, 0, 0, 0, "is in the outbox, and its transaction did not commit"},
		"pending":                {func(_ *history, b *books) { b.pending = 1 }, 0, 0, 0, "1 messages are pending in the end"},
		"failed":                 {func(_ *history, b *books) { b.messages[0].State = "failed" }, 0, 0, 0, "is failed in the end"},
		"acknowledged by nobody": {func(h *history, _ *books) { h.arrivals[2].Act = slow }, 0, 0, 0, "the receiver never said so"},
		"out of order":           {func(h *history, _ *books) { h.arrivals[3], h.arrivals[4] = h.arrivals[4], h.arrivals[3] }, 0, 1, 0, "place 2 in broker/b0, arrived before 1/1.2/0"},
		"before the answer":      {func(h *history, _ *books) { h.arrivals[3].Act = slow; h.arrivals[5].Act = accepts }, 0, 1, 0, "place 2 in broker/b0, arrived before 1/1.2/0"},
		"a refused one too soon": {func(h *history, _ *books) {
			a := h.arrivals[4]
			a.Act, a.Attempt = breaks, 2
			h.arrivals = slices.Insert(h.arrivals, 0, a)
		}, 0, 1, 0, "arrived before 1/1.2/0"},
		"a gap in a lane":      {func(_ *history, b *books) { b.ledger[2].N = 3 }, 0, 0, 0, "has place 3 in broker/b0"},
		"another key":          {func(h *history, _ *books) { h.arrivals[2].Key = "key-2" }, 0, 0, 1, "message A came as"},
		"another body":         {func(h *history, _ *books) { h.arrivals[2].Body += "." }, 0, 0, 1, "message A came as"},
		"another header":       {func(h *history, _ *books) { h.arrivals[2].Intent = "9" }, 0, 0, 1, "message A came as"},
		"another ordering key": {func(h *history, _ *books) { h.arrivals[2].OrderingKey = "b1" }, 0, 0, 1, "message A came as"},
		"another destination":  {func(h *history, _ *books) { h.arrivals[2].Destination = gateway }, 0, 0, 1, "message A came as"},
		"not as it is stored":  {func(_ *history, b *books) { b.messages[2].Key = "key-2" }, 0, 0, 1, "is stored as"},
		"a shared key":         {func(h *history, b *books) { b.messages[2].Key, h.arrivals[4].Key = "key-A", "key-A" }, 0, 0, 1, "has the key key-A, and so has message A"},
		"another id":           {func(h *history, _ *books) { h.arrivals[2].ID, h.arrivals[2].Key = "Z", "key-Z" }, 0, 0, 1, "has the name 0/1.1/0, and so has message A"},
		"one attempt twice":    {func(h *history, _ *books) { h.arrivals[2].Attempt = 1 }, 0, 0, 0, "came twice in attempt 1"},
		"an attempt too many":  {func(h *history, _ *books) { h.arrivals[2].Attempt = 4 }, 0, 0, 0, "came in attempt 4, and 3 were counted"},
		"two at a time": {func(h *history, _ *books) {
			h.arrivals[0].Act, h.arrivals[0].Until = slow, h.arrivals[0].At.Add(2*time.Second)
			h.arrivals[2].At = h.arrivals[0].At.Add(time.Second)
		}, 0, 0, 0, "came in attempt 2 while attempt 1 waited for its answer"},
		"two runs": {func(_ *history, b *books) {
			e := b.ledger[0]
			e.Run, e.Name = "9.9", "0/9.9/0"
			b.ledger = append([]entry{e}, b.ledger...)
		}, 1, 0, 0, "intent 0 was published by 2 runs"},
		"half a run":              {func(h *history, _ *books) { h.intents[0].Messages = append(h.intents[0].Messages, address{}) }, 0, 0, 0, "published 1 messages, not 2"},
		"a failure that has some": {func(h *history, _ *books) { h.intents[0].Fails = true }, 0, 0, 0, "intent 0 failed, and published"},
		"an answer that is wrong": {func(h *history, _ *books) { h.told[0].Run = "7.7" }, 0, 0, 0, "run 7.7 was said to be done"},
		"a failure untold":        {func(h *history, _ *books) { h.told[4].Failed = false }, 0, 0, 0, "it should fail: true"},
		"an error":                {func(h *history, _ *books) { h.told[0].Error = "odd" }, 0, 0, 0, "unexpected error: odd"},
		"no answer":               {func(h *history, _ *books) { h.told = h.told[:4] }, 0, 0, 0, "intent 3 has no answer"},
		"nobody's answer":         {func(h *history, _ *books) { h.told[0].Intent = 8 }, 0, 0, 0, "intent 8, which nobody had"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b := honest()
			c.lie(&h, &b)
			v := judge(h, b)
			if v.lost != c.lost || v.outOfOrder != c.outOfOrder || v.wrongKey != c.keys {
				t.Errorf("lost=%d out_of_order=%d wrong_key=%d, want %d, %d, %d: %q", v.lost, v.outOfOrder, v.wrongKey, c.lost, c.outOfOrder, c.keys, v.complaints)
			}
			if !slices.ContainsFunc(v.complaints, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("%q is not among %q", c.says, v.complaints)
			}
		})
	}
}

// TestBooks_ChangesBehindTheEnd: calls that are made again publish nothing.
func TestBooks_ChangesBehindTheEnd(t *testing.T) {
	t.Parallel()
	_, before := honest()
	for name, c := range map[string]struct {
		change func(*books)
		n      int
	}{
		"none":          {func(*books) {}, 0},
		"an entry":      {func(b *books) { b.ledger = append(b.ledger, entry{}) }, 1},
		"a message":     {func(b *books) { b.messages = b.messages[1:] }, 1},
		"one that goes": {func(b *books) { b.pending++ }, 1},
	} {
		_, after := honest()
		c.change(&after)
		if got := before.changes(after); len(got) != c.n {
			t.Errorf("%s: %q, want %d complaints", name, got, c.n)
		}
	}
}
