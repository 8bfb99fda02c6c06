package riverpub_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/riverpub"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

func TestDeliver_O01_O07_MessageOfACallIsWorked(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	worked := make(chan *river.Job[riverpub.Args], 10)
	client := newClient(t, pool, map[string]worker{"refund_mail": func(_ context.Context, job *river.Job[riverpub.Args]) error {
		worked <- job
		return nil
	}})
	start(t, client)
	box, err := outbox.New(pool, nil, outbox.Destination{Name: "mail", Publisher: newPublisher(t, pool, client, &riverpub.Config{Kind: "refund_mail"})})
	if err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	relay(t, box)
	var ids []toolcall.ID
	call := func(key string, fails error) {
		result, err := txidem.Run(t.Context(), store, txidem.Request{Scope: "alice", Tool: "refund", Key: key}, func(ctx context.Context, tx pgx.Tx) (string, error) {
			id, err := box.PublishTx(ctx, tx, outbox.Message{
				Destination: "mail", Type: "refund.created", OrderingKey: "order 7", Address: "a@example.org",
				Headers: map[string]string{"X-A": "1"}, Body: []byte("a\x00\xffb"),
			})
			ids = append(ids, id)
			return "done", errors.Join(err, fails)
		})
		if !errors.Is(err, fails) {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	call("1", errors.New("rolled back"))
	call("2", nil)
	call("2", nil) // replays
	job := get(t, worked)
	fate := ended(t, box, ids[1])
	want := riverpub.Args{
		ID: ids[1], Key: fate.Key, Destination: "mail", Address: "a@example.org", OrderingKey: "order 7", Type: "refund.created",
		Headers: map[string]string{"X-A": "1"}, Body: []byte("a\x00\xffb"), PublishedAt: fate.PublishedAt, Scope: "alice", Call: fate.Call, Tool: "refund",
	}
	if diff := cmp.Diff(want, job.Args, cmpopts.IgnoreUnexported(riverpub.Args{})); diff != "" || job.Kind != "refund_mail" || fate.Call.IsZero() {
		t.Errorf("the worker of %s got other arguments (-want +got):\n%s", job.Kind, diff)
	}
	if fate.State != toolcall.MessageDelivered || fate.ProviderID != strconv.FormatInt(job.ID, 10) {
		t.Errorf("its fate is %+v, its job %d", fate, job.ID)
	}
	if n := jobs(t, pool, ids[0]); len(ids) != 2 || n != 0 {
		t.Errorf("%d messages, %d jobs of the one that was rolled back", len(ids), n)
	}
}

// ended waits until the message has ended.
func ended(t *testing.T, box *outbox.Outbox, id toolcall.ID) outbox.Fate {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		fate, err := box.Fate(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if fate.State.Ended() {
			return fate
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is still %+v", fate)
		}
	}
}

func TestNew_O07_RefusesWhatRiverWould(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	client := newClient(t, pool, nil)
	for _, c := range []struct {
		cfg  *riverpub.Config
		want string // in the error; empty where there is none
	}{
		{nil, ""},
		{&riverpub.Config{Kind: "a.b:c/d-e_F9", Queue: "mail_2-x", Priority: 4, MaxAttempts: 32_767}, ""},
		{&riverpub.Config{Kind: strings.Repeat("k", 127), Queue: strings.Repeat("q", 64), Priority: 1, MaxAttempts: 1}, ""},
		{&riverpub.Config{Kind: "k"}, "Config.Kind"},
		{&riverpub.Config{Kind: strings.Repeat("k", 128)}, "Config.Kind"},
		{&riverpub.Config{Kind: "two words"}, "Config.Kind"},
		{&riverpub.Config{Queue: "Mail"}, "Config.Queue"},
		{&riverpub.Config{Queue: "a__b"}, "Config.Queue"},
		{&riverpub.Config{Queue: strings.Repeat("q", 65)}, "Config.Queue"},
		{&riverpub.Config{Priority: 5}, "Config.Priority"},
		{&riverpub.Config{Priority: -1}, "Config.Priority"},
		{&riverpub.Config{MaxAttempts: -1}, "Config.MaxAttempts"},
		{&riverpub.Config{MaxAttempts: 32_768}, "Config.MaxAttempts"},
	} {
		p, err := riverpub.New(pool, client, c.cfg)
		if c.want == "" && err == nil {
			delivered(t, p, aDelivery(1)) // River takes it as well
			if _, err := pool.Exec(t.Context(), `delete from `+riverSchema+`.river_job`); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if c.want == "" || err == nil || p != nil || !strings.HasPrefix(err.Error(), "riverpub: "+c.want) {
			t.Errorf("New with %+v: %v", c.cfg, err)
		}
	}
	if _, err := riverpub.New(nil, client, nil); err == nil {
		t.Error("New without a pool")
	}
	if _, err := riverpub.New(pool, nil, nil); err == nil {
		t.Error("New without a client")
	}
}

func TestDeliver_O07_JobIsAsConfigured(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	client := newClient(t, pool, nil)
	type row struct {
		Kind, Queue    string
		Priority, Most int
	}
	for i, c := range []struct {
		cfg  *riverpub.Config
		want row
	}{
		{nil, row{"outbox_message", "default", 1, 25}},
		{&riverpub.Config{Kind: "refund_mail", Queue: "mail", Priority: 3, MaxAttempts: 7}, row{"refund_mail", "mail", 3, 7}},
	} {
		id := delivered(t, newPublisher(t, pool, client, c.cfg), aDelivery(byte(i)))
		var got row
		err := pool.QueryRow(t.Context(), `select kind, queue, priority, max_attempts from `+riverSchema+`.river_job where id::text = $1`, id).
			Scan(&got.Kind, &got.Queue, &got.Priority, &got.Most)
		if err != nil || got != c.want {
			t.Errorf("job %+v, %v; want %+v", got, err, c.want)
		}
	}
}
