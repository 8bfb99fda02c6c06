package txidem

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"
)

// stampede makes the same call several times at once, in ways that replay each other. Who hears that it is in progress or
// that his transaction is too old repeats it. Of a leased call that was cut off, one of them takes the lease.
func (w *world) stampede(t *rapid.T) {
	i := w.some(t, func(i *intent) bool { return i.free() || i.leased && i.cutOff() })
	cutOff, args := !i.free(), i.argsOf
	if !cutOff {
		args = w.argsFor(t, i)
	}
	s := &stampeding{world: w, intent: i, args: args, answers: make(map[string]int), key: make(map[string]bool)}
	s.req = w.request(t, i, s.args)
	ways := []Way{WayRun, WayTx, WayBatch}
	s.req.Policy.OnLeaseLost = RerunLost
	if cutOff || rapid.SampledFrom(i.ways).Draw(t, "way") == WayLeased {
		ways = []Way{WayLeased}
	}
	s.ran.Store(int64(w.run))
	var callers sync.WaitGroup
	for range 4 {
		way := rapid.SampledFrom(ways).Draw(t, "way")
		callers.Go(func() { s.call(way) })
	}
	callers.Wait()
	w.run = int(s.ran.Load())
	run, err := strconv.Atoi(s.first.Value)
	if err != nil || s.fresh != 1 || len(s.answers) != 1 || s.err != nil {
		t.Fatalf("%d first answers, different ones: %v, error %v; want one", s.fresh, s.answers, s.err)
	}
	p := plan{intent: i, way: ways[0], args: s.args}
	if ways[0] != WayLeased {
		p.keep(made{kept: true}, stateSucceeded, string(s.first.Raw), s.first.FinishedAt, run)
		return
	}
	if !cutOff {
		i.lives = append(i.lives, &life{})
	}
	l := i.lives[len(i.lives)-1]
	l.runs = append(l.runs, run)
	for key := range s.key {
		l.know(t, i, key)
	}
	p.keep(made{kept: true}, stateSucceeded, string(s.first.Raw), s.first.FinishedAt)
}

type stampeding struct {
	*world
	*intent
	args int
	req  Request
	ran  atomic.Int64

	mu      sync.Mutex
	answers map[string]int
	key     map[string]bool // downstream
	first   Result[string]
	fresh   int
	err     error
}

// call makes the call until it has an answer.
func (s *stampeding) call(way Way) {
	var result Result[string]
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		result, err = s.once(way)
		if !errors.Is(err, ErrInProgress) && !errors.Is(err, ErrStaleSnapshot) && !hasCode(err, codeSerialization) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return
	}
	s.answers[string(result.Raw)]++
	if !result.Replayed {
		s.fresh++
		s.first = result
	}
}

func (s *stampeding) once(way Way) (Result[string], error) {
	ctx, store := s.f.t.Context(), s.f.store
	handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
		run := int(s.ran.Add(1))
		return strconv.Itoa(run), writeRun(ctx, tx, s.intent.name, run)
	}
	switch way {
	case WayTx:
		return s.f.callTx(ctx, s.level, s.req, handler)
	case WayBatch:
		return RunBatch(ctx, store, s.req, func(_ context.Context, b *Batch) (string, error) {
			run := int(s.ran.Add(1))
			b.Queue(sqlWriteRun, s.intent.name, run)
			return strconv.Itoa(run), nil
		})
	case WayLeased:
		return RunLeased(ctx, store, s.req, s.pay, nil)
	default:
		return Run(ctx, store, s.req, handler)
	}
}

func (s *stampeding) pay(ctx context.Context) (string, error) {
	run, key := int(s.ran.Add(1)), downstream(ctx)
	s.mu.Lock()
	s.key[key] = true
	s.mu.Unlock()
	_, err := s.f.pool.Exec(ctx, `insert into provider (intent, downstream, run) values ($1, $2, $3)`, s.intent.name, key, run)
	return strconv.Itoa(run), err
}
