package faults

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
)

// task is what the jobs of the tests are given.
type task struct {
	Key string `json:"key"`
}

// staff works jobs and delivers messages. Nil is nobody.
type staff struct {
	report *jobs.Definition[task, string]
	runner *jobs.Runner
	box    *outbox.Outbox
	shop   *shop
	end    context.CancelFunc
	ended  chan error // of the relay

	stumble atomic.Bool // the first attempt of each job and of each message fails
}

var errStumbled = errors.New("the first attempt stumbles")

// employ starts a worker and a relay in the process.
func (w *world) employ(configure func(*river.Config)) {
	t := w.t
	t.Helper()
	s := &staff{shop: newShop(), ended: make(chan error, 1)}
	stumbles := func(attempt int) bool { return attempt == 1 && s.stumble.Load() }
	s.report = jobs.Define("report", func(_ context.Context, job *jobs.Job[task]) (jobs.Commit[string], error) {
		if stumbles(job.Attempt) {
			return nil, errStumbled
		}
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			return job.ID.String(), w.write(ctx, tx, job.Args.Key, job.ID.String(), "")
		}, nil
	}, &jobs.Options{MaxAttempts: 100, Backoff: func(int) time.Duration { return 100 * time.Millisecond }})
	var err error
	if s.runner, err = jobs.New(w.pool, &jobs.Config{Lease: 4 * time.Second, Sweep: 500 * time.Millisecond, Configure: func(c *river.Config) {
		c.TestOnly = true // no staggered start
		c.FetchPollInterval = 200 * time.Millisecond
		if configure != nil {
			configure(c)
		}
	}}, s.report); err != nil {
		t.Fatal(err)
	}
	if s.box, err = outbox.New(w.pool, nil, outbox.Destination{
		Name: "shop", Publisher: outbox.Func(func(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			if stumbles(d.Attempt) {
				return outbox.Outcome{Class: outbox.Retry}, nil
			}
			return s.shop.take(d), nil
		}), Timeout: 5 * time.Second,
		Retry: slices.Repeat(outbox.Schedule{200 * time.Millisecond}, 50),
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s.end = cancel
	go func() { s.ended <- s.box.Run(ctx) }()
	w.staff = s
	t.Cleanup(func() { s.leave(t) })
}

// settle waits until the jobs have had their effects and the messages of all others have arrived, and judges the messages.
func (s *staff) settle(t *testing.T, l *load) {
	t.Helper()
	if s == nil {
		return
	}
	eventually(t, "all jobs and messages are done", func() bool {
		return l.w.count(`select (select count(*) from txonce.job where state <> 'succeeded') + (select count(*) from txonce.message_pending)`) == 0
	})
	effects, want := l.w.effects(), make(map[string][]string)
	for _, key := range s.shop.expected() {
		want[key] = []string{key + " " + strings.Join(effects[key], " ")}
	}
	if diff := cmp.Diff(want, s.shop.all()); diff != "" {
		t.Errorf("O01: what arrived is not the effects, each under one key (-effects +arrived):\n%s", diff)
	}
}

// leave stops both. What comes after the first time does nothing.
func (s *staff) leave(t *testing.T) {
	t.Helper()
	if s == nil || s.end == nil {
		return
	}
	s.end()
	s.end = nil
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.runner.Stop(ctx); err != nil {
		t.Errorf("the runner does not stop: %v", err)
	}
	<-s.ended
}

// shop receives messages. It does once what comes under one key.
type shop struct {
	mu   sync.Mutex
	told map[string]bool     // keys of the calls that send something
	seen map[string]string   // bodies by downstream key
	got  map[string][]string // bodies that came under new keys, by the call's key
}

func newShop() *shop {
	return &shop{told: make(map[string]bool), seen: make(map[string]string), got: make(map[string][]string)}
}

func (s *shop) take(d outbox.Delivery) outbox.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := string(d.Body)
	if before, again := s.seen[d.Key]; !again || before != body {
		s.seen[d.Key] = body
		key, _, _ := strings.Cut(body, " ")
		s.got[key] = append(s.got[key], body)
	}
	return outbox.Outcome{Class: outbox.Delivered}
}

// expects says that the call with the key sends something.
func (s *shop) expects(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[key] = true
}

func (s *shop) expected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.told))
}

func (s *shop) all() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.got)
}
