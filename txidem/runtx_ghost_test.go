//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package txidem

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/toolcall"
)

// TestRunTx_RunBatch_R08_GhostStandby has commits wait for a standby that never answers. Nobody is told "done": a batch, a
// caller's commit and the outcome of both stay unknown, and a replay makes the commit of its own transaction wait.
func TestRunTx_RunBatch_R08_GhostStandby(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartOwn, &devpg.Config{})
	f, _, events := wiredAt(t, srv, &Policy{CommitTimeout: 300 * time.Millisecond, Wait: NoWait}, 8)
	f.ghost(true)
	got, err := RunBatch(t.Context(), f.store, request("batch"), queues("batch"))
	if !errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) || got.Raw != nil || events.last(got.ID).Decision != DecidedUnknown {
		t.Errorf("RunBatch: %+v, %v; want ErrOutcomeUnknown", got, err)
	}
	if err := f.shortCommit("tx", false); err == nil {
		t.Error("the caller's commit did not wait")
	}
	for _, key := range []string{"batch", "tx"} {
		eventually(t, "the server shows the record", func() bool { return f.answerOf(key) != "" })
		if status, err := f.store.Resolve(t.Context(), request(key)); !errors.Is(err, ErrOutcomeUnknown) || status.State != "" {
			t.Errorf("%s: resolved to %+v, %v; want ErrOutcomeUnknown", key, status, err)
		}
		if got, err := RunBatch(t.Context(), f.store, request(key), queues("never")); !errors.Is(err, ErrOutcomeUnknown) || got.Replayed {
			t.Errorf("%s, by RunBatch: %+v, %v; want ErrOutcomeUnknown", key, got, err)
		}
		if err := f.shortCommit(key, true); err == nil {
			t.Errorf("%s: the commit of a replay did not wait", key)
		}
	}
	f.ghost(false)
	for _, key := range []string{"batch", "tx"} {
		req := request(key)
		req.Policy = &Policy{CommitTimeout: 20 * time.Second}
		if status, err := f.store.Resolve(t.Context(), req); err != nil || status.State != toolcall.StateSucceeded {
			t.Errorf("%s: resolved to %+v, %v", key, status, err)
		}
		if got, err := RunBatch(t.Context(), f.store, req, queues("never")); err != nil || !got.Replayed || got.Value != "done "+key {
			t.Errorf("%s, by RunBatch: %+v, %v; want the replay", key, got, err)
		}
	}
	f.effectsAre(map[string]int{"batch": 1, "tx": 1, "never": 0})
	f.clean()
}

// shortCommit makes a call in a transaction whose commit gives up early.
func (f *fixture) shortCommit(key string, replayed bool) error {
	f.t.Helper()
	tx, err := f.pool.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(f.t.Context()) }()
	got, err := RunTx(f.t.Context(), tx, f.store, request(key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		return "done " + key, write(ctx, tx, key)
	})
	if err != nil || got.Replayed != replayed {
		f.t.Errorf("%s: %+v, %v", key, got, err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 300*time.Millisecond)
	defer cancel()
	return tx.Commit(ctx)
}
