package outbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestPublish_O01_JobsCommitHalf: a job's message commits with its result. The compute half has no transaction to publish in.
func TestPublish_O01_JobsCommitHalf(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	type in struct{ Label string }
	var mu sync.Mutex
	keys, halves := map[string]bool{}, 0
	var during error
	def := jobs.Define("report", func(ctx context.Context, job *jobs.Job[in]) (jobs.Commit[string], error) {
		_, during = box.Publish(ctx, outbox.Message{Destination: "mail"})
		return func(ctx context.Context, tx pgx.Tx) (string, error) {
			id, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Effect: "tell"})
			mu.Lock()
			defer mu.Unlock()
			call, _ := toolcall.FromContext(ctx)
			keys[call.DownstreamKey("tell")] = true
			if halves++; halves == 1 {
				return "", errOops
			}
			return id.String(), err
		}, nil
	}, &jobs.Options{Backoff: func(int) time.Duration { return 0 }})
	runner, err := jobs.New(pool, &jobs.Config{Configure: func(c *river.Config) {
		c.TestOnly, c.FetchCooldown, c.FetchPollInterval, c.PollOnly = true, 20*time.Millisecond, 100*time.Millisecond, dbtest.Pooled()
	}}, def)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runner.Stop(context.Background()) }()
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := def.SubmitTx(t.Context(), tx, runner, in{"a"}, &jobs.SubmitOpts{Scope: "alice"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job has sent its message", func() bool { return messages(t, pool) > 0 })
	eventually(t, "the job is over", func() bool {
		return get[bool](t, pool, `select bool_and(finished_at is not null) from txonce.job`)
	})
	mu.Lock()
	defer mu.Unlock()
	if n := messages(t, pool); n != 1 || halves != 2 || len(keys) != 1 || !keys[get[string](t, pool, `select key from txonce.message`)] {
		t.Errorf("%d messages of %d commit halves, keys %v", n, halves, keys)
	}
	if during == nil {
		t.Error("the compute half published, and no transaction can have committed it")
	}
}
