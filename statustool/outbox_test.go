package statustool

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// postOffice is a server on Postgres with a tool that sends two messages, and one whose job sends one. The receiver refuses those
// whose body says so.
func postOffice(t *testing.T) (*shop, *outbox.Outbox) {
	t.Helper()
	pool := dbtest.Pool(t, nil)
	box, err := outbox.New(pool, nil, outbox.Destination{Name: "webhooks", Publisher: outbox.Func(func(_ context.Context, d outbox.Delivery) (outbox.Outcome, error) {
		if string(d.Body) == "refuse" {
			return outbox.Outcome{Class: outbox.Rejected, Status: 422, Reason: "secret reason", Response: []byte("secret answer")}, nil
		}
		return outbox.Outcome{Class: outbox.Delivered, Status: 200, ProviderID: "re_1", Response: []byte("secret answer")}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	send := func(ctx context.Context, tx pgx.Tx, bodies ...string) error {
		for _, body := range bodies {
			if _, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "webhooks", Address: "https://secret.example", Body: []byte(body)}); err != nil {
				return err
			}
		}
		return nil
	}
	report := jobs.Define("build_report", func(context.Context, *jobs.Job[order]) (jobs.Commit[pages], error) {
		return func(ctx context.Context, tx pgx.Tx) (pages, error) { return pages{12}, send(ctx, tx, "take") }, nil
	}, nil)
	runner, err := jobs.New(pool, &jobs.Config{Configure: func(c *river.Config) {
		c.TestOnly, c.PollOnly = true, dbtest.Pooled()
		c.FetchCooldown, c.FetchPollInterval = 20*time.Millisecond, 200*time.Millisecond
	}}, report)
	if err != nil {
		t.Fatal(err)
	}
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, store: store, server: mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)}
	if s.idem, err = mcpidem.New(s.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs(scope)}); err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "issue_refund"}, func(ctx context.Context, tx pgx.Tx, in order) (receipt, error) {
		return receipt{Refund: "R-" + in.Order}, send(ctx, tx, "take", "refuse")
	})
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "request_report"}, func(ctx context.Context, tx pgx.Tx, in order) (jobs.Handle, error) {
		return report.SubmitTx(ctx, tx, runner, in, nil)
	})
	(&office{t: t, runner: runner}).start()
	return s.add(&Config{Outbox: box}, store, runner), box
}

// relay delivers until the test ends.
func relay(t *testing.T, box *outbox.Outbox) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- box.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
}

// TestGet_S07_OnPostgres: a real outbox tells of the messages of calls and jobs, and nothing of that which is for operators.
func TestGet_S07_OnPostgres(t *testing.T) {
	t.Parallel()
	s, box := postOffice(t)
	session := s.connect(nil)
	do(t, session, "issue_refund", args{"order": "A", "idempotency_key": "k"})
	handle := do(t, session, "request_report", args{"order": "A", "idempotency_key": "k"}).StructuredContent.(map[string]any)
	fates := func(ask args) (string, Report) {
		r := do(t, session, "get_status", with(ask, args{"wait_seconds": 25}))
		if text := r.Content[0].(*mcp.TextContent).Text; strings.Contains(text, "secret") {
			t.Errorf("what is for operators is shown: %s", text)
		}
		got := reportIn(t, r)
		var all []string
		for _, m := range got.Messages {
			all = append(all, fmt.Sprintf("%s %s %d %d %s", m.Effect, m.State, m.Attempts, m.Status, m.ProviderID))
		}
		return strings.Join(all, "; "), got
	}
	call, job := args{"tool": "issue_refund", "idempotency_key": "k"}, args{"id": handle["job_id"]}
	said, refund := fates(call)
	if want := "webhooks/1 pending 0 0 ; webhooks/2 pending 0 0 "; said != want {
		t.Errorf("before a relay runs: %s, want %s", said, want)
	}
	if said, got := fates(job); said != "webhooks/1 pending 0 0 " || got.State != toolcall.StateSucceeded {
		t.Errorf("the job, before a relay runs: %s, %+v", said, got)
	}
	id, err := toolcall.ParseID(refund.ID)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := box.Messages(t.Context(), []toolcall.Ask{{Scope: "bob", ID: id}, {Scope: scope, ID: id}}); err != nil || len(found[0]) != 0 || len(found[1]) != 2 {
		t.Errorf("another's: %+v, %v", found, err)
	}
	relay(t, box)
	for label, c := range map[string]struct {
		ask  args
		want string
	}{
		"the call": {call, "webhooks/1 delivered 1 200 re_1; webhooks/2 failed 1 422 "},
		"the job":  {job, "webhooks/1 delivered 1 200 re_1"},
	} {
		said, got := fates(c.ask)
		for end := time.Now().Add(time.Minute); said != c.want; said, got = fates(c.ask) {
			if time.Now().After(end) {
				t.Fatalf("%s: %s, want %s", label, said, c.want)
			}
		}
		if got.Messages[0].EndedAt.IsZero() || !got.Messages[0].NextAttemptAt.IsZero() {
			t.Errorf("%s: %+v", label, got.Messages[0])
		}
	}
}
