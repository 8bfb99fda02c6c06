package failover

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// intent names a call. Its key is the same in each tool's tables.
type intent struct{ tool, key string }

// receipt is what each tool answers. Run is another one in each run of a handler, so two runs never answer the same.
type receipt struct {
	Key string `json:"key"`
	Run string `json:"run"`
	Job string `json:"job,omitempty"`
}

// ledger is what callers have heard: all that a caller can be sure of.
type ledger struct {
	mu      sync.Mutex
	order   []intent            // as they were first answered
	answers map[intent][][]byte // that differ, the first one first
	errors  int
	last    error // that a caller heard
}

func newLedger() *ledger { return &ledger{answers: make(map[intent][][]byte)} }

// heard notes an answer.
func (l *ledger) heard(in intent, answer []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers[in] == nil {
		l.order = append(l.order, in)
	}
	if !slices.ContainsFunc(l.answers[in], func(other []byte) bool { return bytes.Equal(other, answer) }) {
		l.answers[in] = append(l.answers[in], answer)
	}
}

// failed notes that a caller got an error, and will make the call again.
func (l *ledger) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors++
	l.last = err
}

// all returns the calls that were answered, in the order in which they were.
func (l *ledger) all() []intent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.order)
}

func (l *ledger) answersOf(in intent) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.answers[in])
}

// any returns a call that was answered, if there is one, and its first answer.
func (l *ledger) any() (in intent, answer []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 {
		return in, nil, false
	}
	in = l.order[rand.N(len(l.order))]
	return in, l.answers[in][0], true
}

// failures counts errors.
func (l *ledger) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errors
}

func (l *ledger) lastError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// ofEach reports whether each tool has at least n answers behind the first calls.
func ofEach(all []intent, behind, n int) bool {
	count := make(map[string]int)
	for _, in := range all[min(behind, len(all)):] {
		count[in.tool]++
	}
	return !slices.ContainsFunc(tools(), func(tool string) bool { return count[tool] < n })
}

func decode(t *testing.T, answer []byte) (r receipt) {
	t.Helper()
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatalf("the answer %q: %v", answer, err)
	}
	return r
}
