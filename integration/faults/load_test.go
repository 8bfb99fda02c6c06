package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// load is callers at work: lanes that take one key after the other, each of which two callers call until they have its answer.
type load struct {
	w        *world
	ways     []way
	deadline time.Duration // of one call

	mu     sync.Mutex
	keys   int
	told   map[string][]string // answers by key
	denied map[string]error    // by run: the attempt is said to have had no effect
	heard  map[string]int      // errors by their kind
	said   map[string]string   // the first error of each kind
	news   chan struct{}       // closed when there is more of the above

	enough chan struct{}
	lanes  sync.WaitGroup
}

const (
	lanesOfLoad   = 6
	callersOfKey  = 2
	usualDeadline = 10 * time.Second
	shortestPause = 10 * time.Millisecond // between two calls of a caller
	longestPause  = 300 * time.Millisecond
	betweenKeys   = 5 * time.Millisecond // of a lane: the server has others to serve
	mostAsked     = 200                  // keys whose status is asked for in the end, about
)

// newLoad prepares callers, who take turns in the ways.
func newLoad(w *world, ways ...way) *load {
	return &load{
		w: w, ways: ways, deadline: usualDeadline, told: make(map[string][]string), denied: make(map[string]error),
		heard: make(map[string]int), said: make(map[string]string), news: make(chan struct{}), enough: make(chan struct{}),
	}
}

// start lets the callers begin. They go on until end.
func (l *load) start() *load {
	for range lanesOfLoad {
		l.lanes.Go(func() {
			for {
				select {
				case <-l.enough:
					return
				case <-time.After(betweenKeys):
					l.next()
				}
			}
		})
	}
	return l
}

// next takes a key through.
func (l *load) next() {
	n, key := l.newKey()
	var callers sync.WaitGroup
	for range callersOfKey {
		callers.Go(func() { l.callUntilAnswered(l.w, key, l.ways[n%len(l.ways)]) })
	}
	callers.Wait()
}

// newKey is the key of a call that nobody has made.
func (l *load) newKey() (n int, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys++
	return l.keys - 1, fmt.Sprintf("k%04d", l.keys-1)
}

// callUntilAnswered is a caller in the process of w.
func (l *load) callUntilAnswered(w *world, key string, by way) {
	ctx := w.t.Context()
	for pause := shortestPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		a := &attempt{key: key}
		once, cancel := context.WithTimeout(ctx, l.deadline)
		answer, err := by(once, w, a)
		cancel()
		if l.note(a, answer, err); err == nil {
			return
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
		}
	}
}

// note writes down what a caller was told.
func (l *load) note(a *attempt, answer string, err error) {
	kind := kindOf(err)
	if err != nil && l.w.t.Context().Err() == nil && (kind == "" || !txidem.Retryable(err)) {
		l.w.t.Errorf("%s: the error has no name, or is said not to be worth a repeat: %v", a.key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.told[a.key] = append(l.told[a.key], answer)
	default:
		l.heard[kind]++
		if l.said[kind] == "" {
			l.said[kind] = err.Error()
		}
		for _, run := range a.runs {
			if !errors.Is(err, txidem.ErrOutcomeUnknown) {
				l.denied[run] = err
			}
		}
	}
	close(l.news)
	l.news = make(chan struct{})
}

// kindOf names an error that callers may hear while a server is ill, with its SQLSTATE. Any other one has no name.
func kindOf(err error) string {
	kind := ""
	for _, known := range [...]struct {
		name string
		err  error
	}{
		{"unknown", txidem.ErrOutcomeUnknown},
		{"in progress", txidem.ErrInProgress},
		{"unavailable", txidem.ErrUnavailable},
		{"handler", errHandler},
		{"deadline", context.DeadlineExceeded},
	} {
		if errors.Is(err, known.err) {
			kind += " " + known.name
		}
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && kind != "" {
		kind += " " + pgErr.Code
	}
	return strings.TrimPrefix(kind, " ")
}

// await waits until what callers were told fulfils cond.
func (l *load) await(what string, cond func() bool) {
	l.w.t.Helper()
	giveUp := time.After(patience)
	for {
		l.mu.Lock()
		done, news := cond(), l.news
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-news:
		case <-giveUp:
			l.w.t.Fatalf("still not so after %v: %s; heard %v", patience, what, l.heard)
		}
	}
}

// answered waits until n more keys have an answer.
func (l *load) answered(n int) {
	l.w.t.Helper()
	l.mu.Lock()
	want := len(l.told) + n
	l.mu.Unlock()
	l.await(fmt.Sprintf("%d keys have answers", want), func() bool { return len(l.told) >= want })
}

// hears waits until n more errors were heard whose kind has the word in it.
func (l *load) hears(word string, n int) {
	l.w.t.Helper()
	heard := func() (sum int) {
		for kind, n := range l.heard {
			if strings.Contains(kind, word) {
				sum += n
			}
		}
		return sum
	}
	l.mu.Lock()
	want := heard() + n
	l.mu.Unlock()
	l.await(fmt.Sprintf("%q was heard %d times", word, want), func() bool { return heard() >= want })
}

// end takes no more keys, waits until all have their answers, and judges.
func (l *load) end() {
	t := l.w.t
	t.Helper()
	close(l.enough)
	gone := make(chan struct{})
	go func() { l.lanes.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatalf("callers have no answers after %v; heard %v", patience, l.heard)
	}
	l.w.books.Reset() // its connections have seen what the server has
	l.w.staff.settle(t, l)
	l.judge()
	l.log()
}

// log says what callers heard.
func (l *load) log() {
	l.w.t.Helper()
	l.w.t.Logf("%d keys", l.keys)
	for _, kind := range slices.Sorted(maps.Keys(l.heard)) {
		l.w.t.Logf("heard %d times %s: %s", l.heard[kind], kind, l.said[kind])
	}
}

// judge holds what callers were told against what is there.
func (l *load) judge() {
	t := l.w.t
	t.Helper()
	effects := l.w.effects()
	there := make(map[string]bool)
	for _, runs := range effects {
		for _, run := range runs {
			there[run] = true
		}
	}
	for run, err := range l.denied {
		if there[run] {
			t.Errorf("I5: run %s has its effect, and its caller was told %v", run, err)
		}
	}
	for n, key := range slices.Sorted(maps.Keys(l.told)) {
		answers := l.told[key]
		if len(effects[key]) != 1 || len(answers) != callersOfKey || answers[0] != effects[key][0] || answers[1] != effects[key][0] {
			t.Errorf("I1: %s has the effects of the runs %q, its callers were told %q", key, effects[key], answers)
		}
		if n%(1+len(l.told)/mostAsked) != 0 {
			continue
		}
		status, err := l.w.store.Status(t.Context(), request(key))
		if err != nil || status.State != toolcall.StateSucceeded || !strings.HasPrefix(string(status.Answer), `"`+answers[0]) {
			t.Errorf("S02: the status of %s is %+v, %v; its callers were told %q", key, status, err, answers)
		}
	}
	if len(effects) != l.keys || len(l.told) != l.keys {
		t.Errorf("%d keys have effects and %d answers, of %d", len(effects), len(l.told), l.keys)
	}
}
