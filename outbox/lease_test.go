package outbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestLease_O03_ZombieChangesNothing is trap 5: a worker is held up for longer than its lease, a second one has the message, and
// then the first one goes on, with whatever answer, before the second has settled or behind that.
func TestLease_O03_ZombieChangesNothing(t *testing.T) {
	t.Parallel()
	throttled := outbox.Outcome{Class: outbox.Retry, Status: 429, RetryAfter: time.Hour, Throttled: true}
	for label, c := range map[string]struct {
		late, second outbox.Outcome
		first        bool // the zombie goes on before the second one settles
		want         toolcall.MessageState
	}{
		"200 behind 200": {delivered, delivered, false, toolcall.MessageDelivered},
		"500 behind 200": {busy, delivered, false, toolcall.MessageDelivered},
		"400 behind 200": {rejected, delivered, false, toolcall.MessageDelivered},
		"410 behind 200": {gone, delivered, false, toolcall.MessageDelivered},
		"429 behind 200": {throttled, delivered, false, toolcall.MessageDelivered},
		"200 before 503": {delivered, busy, true, toolcall.MessagePending},
		"500 before 200": {busy, delivered, true, toolcall.MessageDelivered},
		"400 before 200": {rejected, delivered, true, toolcall.MessageDelivered},
		"200 before 400": {delivered, rejected, true, toolcall.MessageUnknown}, // for an attempt got no answer that was taken
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.Pool(t, nil)
			g, log := newGate(t), &logbook{}
			d := outbox.Destination{Name: "hook", Publisher: g, Concurrency: 1, Timeout: 10 * time.Minute, Retry: outbox.Schedule{1 << 50, 1 << 50}}
			frozen := newBox(t, pool, &outbox.Config{Logger: log.logger()}, d)
			id := publish(t, pool, frozen, outbox.Message{Destination: "hook", OrderingKey: "k"})[0]
			relay(t, frozen)
			zombie := g.next(t)
			lapse(t, pool, id)
			box := newBox(t, pool, nil, d)
			relay(t, box)
			second := g.next(t)
			if second.ID != zombie.ID || second.Key != zombie.Key || second.Attempt != 2 {
				t.Errorf("the second attempt is %+v, the first was %+v", second.Delivery, zombie.Delivery)
			}
			settled := func(f outbox.Fate) bool { return f.State == c.want && f.Attempts == 2 }
			if !c.first {
				second.answers(c.second)
				until(t, box, id, settled)
			}
			zombie.answers(c.late)
			eventually(t, "the first relay says that it came too late", func() bool { return log.count(tooLate) == 1 })
			if c.first {
				second.answers(c.second)
			}
			if f := until(t, box, id, settled); c.second.Class != outbox.Rejected && f.Status != c.second.Status {
				t.Errorf("its fate is %+v", f)
			}
			if n := get[int](t, pool, `select count(*)::integer from txonce.destination where paused_at is not null or closed_until is not null`); n != 0 {
				t.Error("the late answer closed the destination")
			}
			g.nobody(t)
		})
	}
}

// TestLease_O03_EachOfABatchForItself is trap 6: one of ten times out.
func TestLease_O03_EachOfABatchForItself(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	d := outbox.Destination{
		Name: "hook", Timeout: 100 * time.Millisecond, Retry: outbox.Schedule{1 << 50},
		Publisher: outbox.Func(func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			if d.Body[0] == 4 {
				<-ctx.Done()
				return outbox.Outcome{}, ctx.Err()
			}
			return delivered, nil
		}),
	}
	box := newBox(t, pool, nil, d)
	var all []outbox.Message
	for i := range 10 {
		all = append(all, outbox.Message{Destination: "hook", Body: []byte{byte(i)}})
	}
	ids := publish(t, pool, box, all...)
	relay(t, box)
	for i, id := range ids {
		if i != 4 {
			ended(t, box, id, toolcall.MessageDelivered, 1)
		}
	}
	f := until(t, box, ids[4], func(f outbox.Fate) bool { return f.Reason != "" })
	if f.State != toolcall.MessagePending || f.Attempts != 1 || !strings.Contains(f.Reason, "no answer in time") {
		t.Errorf("the one that timed out is %+v", f)
	}
	if n := messages(t, pool); n != 10 {
		t.Errorf("%d messages are left", n)
	}
}

// childEnv has this test binary be a relay that dies at the wrong moment.
const childEnv = "TXONCE_OUTBOX_TEST_CHILD"

// child relays from the database at url, says what it delivers, and never notes what came of it.
func child(url string) {
	pool, err := pgxpool.New(context.Background(), url)
	if err == nil {
		var box *outbox.Outbox
		box, err = outbox.New(pool, nil, outbox.Destination{Name: "hook", Timeout: time.Minute, Publisher: outbox.Func(
			func(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
				_ = json.NewEncoder(os.Stdout).Encode(d)
				select {}
			})})
		if err == nil {
			err = box.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestLease_O01_KilledBetweenEffectAndSettle is trap 7: the receiver has it, and the process that would say so is killed.
func TestLease_O01_KilledBetweenEffectAndSettle(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool := dbtest.PoolAt(t, url, nil)
	r := newReceiver(nil)
	told := make(chan outbox.Fate, 10)
	box := newBox(t, pool, nil, outbox.Destination{
		Name: "hook", Publisher: r, OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error { told <- f; return nil },
	})
	id := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k", Body: []byte{0, 255}, Headers: map[string]string{"A": "b"}, Type: "t", Address: "a"})[0]

	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+url), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
		_, _ = io.Copy(io.Discard, out)
	}()
	var first outbox.Delivery
	if err := json.Unmarshal([]byte(receive(t, "the child delivers", line)), &first); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if f := fate(t, box, id); f.State != toolcall.MessageDelivering || f.Attempts != 1 {
		t.Errorf("behind the kill it is %+v", f)
	}
	lapse(t, pool, id)
	relay(t, box)
	ended(t, box, id, toolcall.MessageDelivered, 2)
	second := r.all()[0]
	if second.Attempt != 2 || !second.PublishedAt.Equal(first.PublishedAt) {
		t.Errorf("attempt %d, published at %v and %v", second.Attempt, first.PublishedAt, second.PublishedAt)
	}
	first.Attempt, first.PublishedAt = 2, second.PublishedAt
	if a, b := fmt.Sprintf("%+v", first), fmt.Sprintf("%+v", second); a != b {
		t.Errorf("the attempts differ:\n%s\n%s", a, b)
	}
	if f := receive(t, "the application is told", told); f.State != toolcall.MessageDelivered || len(r.all()) != 1 {
		t.Errorf("told of %+v behind %d more attempts", f, len(r.all()))
	}
}

// TestLease_O08_RunEnds: Run begins nothing more when its context ends, waits for what is under way and notes it.
func TestLease_O08_RunEnds(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	g := newGate(t)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: g, Concurrency: 1, Timeout: time.Minute})
	ids := publish(t, pool, box, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook"})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	v := g.next(t)
	if err := box.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second Run gives %v", err)
	}
	cancel(errOops)
	for range 20 { // it has the chance
		fate(t, box, v.ID)
	}
	select {
	case err := <-done:
		t.Fatalf("Run has returned %v, and an attempt is under way", err)
	default:
	}
	v.answers(delivered)
	if err := receive(t, "Run returns", done); err != errOops {
		t.Errorf("Run returned %v", err)
	}
	states := map[toolcall.MessageState]int{}
	for _, id := range ids {
		states[fate(t, box, id).State]++
	}
	if g.nobody(t); states[toolcall.MessageDelivered] != 1 || states[toolcall.MessagePending] != 1 {
		t.Errorf("they are %v", states)
	}
	relay(t, box) // and again
	g.next(t).answers(delivered)
}

// TestLease_O07_PublisherThatNeverReturns keeps its slot, and neither its message nor Run.
func TestLease_O07_PublisherThatNeverReturns(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	release := make(chan struct{})
	var stuck sync.WaitGroup
	stuck.Add(1)
	t.Cleanup(func() { close(release); stuck.Wait() })
	box := newBox(t, pool, nil, outbox.Destination{
		Name: "hook", Timeout: 100 * time.Millisecond, Retry: outbox.Schedule{}, Concurrency: 1,
		Publisher: outbox.Func(func(context.Context, outbox.Delivery) (outbox.Outcome, error) {
			defer stuck.Done()
			<-release
			return delivered, nil
		}),
	}, mail())
	ids := publish(t, pool, box, outbox.Message{Destination: "hook"}, outbox.Message{Destination: "hook", Delay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	if f := ended(t, box, ids[0], toolcall.MessageUnknown, 1); !strings.Contains(f.Reason, "does not heed") {
		t.Errorf("its fate is %+v", f)
	}
	due(t, pool, ids[1])
	for range 10 { // the relay looks meanwhile
		ended(t, box, publish(t, pool, box, outbox.Message{Destination: "mail"})[0], toolcall.MessageDelivered, 1)
	}
	cancel()
	if err := receive(t, "Run returns", done); err != context.Canceled {
		t.Errorf("Run returned %v", err)
	}
	if f := fate(t, box, ids[1]); f.Attempts != 0 {
		t.Errorf("there was no slot for %+v", f)
	}
}
