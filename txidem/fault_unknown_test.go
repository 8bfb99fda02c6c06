//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package txidem

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/toolcall"
)

// ghost makes the server wait for a synchronous standby that does not exist, and back.
func (f *fixture) ghost(there bool) {
	f.t.Helper()
	sql := `alter system reset synchronous_standby_names`
	if there {
		sql = `alter system set synchronous_standby_names = 'ghost'`
	}
	f.exec(sql)
	f.exec(`select pg_reload_conf()`)
	eventually(f.t, "commits wait, or do not", func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := f.pool.Exec(ctx, sqlConfirm)
		return (err != nil) == there
	})
}

// TestRun_R08_GhostStandby has commits wait for a standby that never answers. pgx gives up and the server then shows
// what it has committed, although no standby has it.
func TestRun_R08_GhostStandby(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartOwn, &devpg.Config{})
	f, wire, events := wiredAt(t, srv, &Policy{CommitTimeout: 300 * time.Millisecond, Wait: NoWait}, 8)
	f.ghost(true)
	handlers := map[string]handlerFunc{
		"answer":  func(ctx context.Context, tx pgx.Tx) (string, error) { return "done", writeRun(ctx, tx, "answer", 1) },
		"failure": func(context.Context, pgx.Tx) (string, error) { return "", Fail("no", "never") },
	}
	unknown := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, errUndone) || !Retryable(err) {
			t.Errorf("%s: got %v, want ErrOutcomeUnknown", what, err)
		}
	}
	for _, lose := range []bool{false, true} { // whether the server hears that pgx has given up
		wire.LoseCancels(lose)
		for label, handler := range handlers {
			key := name(label, lose)
			got, err := Run(t.Context(), f.store, request(key), handler)
			unknown(key, err)
			if e := events.last(got.ID); e.Runs != 1 || e.Resolved || e.Decision != DecidedUnknown || got.Raw != nil {
				t.Errorf("%s: got %+v, event %+v", key, got, e)
			}
			status, err := f.store.Resolve(t.Context(), request(key))
			unknown(key+", resolved", err)
			if status.State != "" {
				t.Errorf("%s: resolved to %+v", key, status)
			}
			f.askBesideGhost(key, lose)
		}
	}
	wire.LoseCancels(false)
	f.ghost(false)
	for label := range handlers {
		for _, lose := range []bool{false, true} {
			req := request(name(label, lose))
			req.Policy = &Policy{CommitTimeout: 20 * time.Second, Wait: 20 * time.Second}
			status, err := f.store.Resolve(t.Context(), req)
			if err != nil || status.State == toolcall.StateNone {
				t.Errorf("%s: resolved to %+v, %v; want it recorded", req.Key, status, err)
			}
			got, err := Run(t.Context(), f.store, req, writes("never"))
			_, failed := failureIn(err)
			if !got.Replayed || failed != (label == "failure") || (err == nil) != (got.Value == "done") {
				t.Errorf("%s: got %+v, %v; want a replay", req.Key, got, err)
			}
		}
	}
	if runs := f.ran()["answer"]; len(runs) != 2 { // one of each of the two calls
		t.Errorf("effects of %v, want two", runs)
	}
	f.clean()
}

// askBesideGhost repeats a call whose commit waits for the ghost, and asks for its status: neither may say "done". Where
// the server has not heard that its client gave up, the call still holds its lock.
func (f *fixture) askBesideGhost(key string, running bool) {
	f.t.Helper()
	again, err := Run(f.t.Context(), f.store, request(key), writes("never"))
	status, statusErr := f.store.Status(f.t.Context(), request(key))
	if running {
		if !errors.Is(err, ErrInProgress) || statusErr != nil || status.State != toolcall.StateRunning {
			f.t.Errorf("%s: repeated: %v, status %+v, %v; want it in progress", key, err, status, statusErr)
		}
		return
	}
	if !errors.Is(err, ErrOutcomeUnknown) || again.Raw != nil || again.Replayed || !Retryable(err) {
		f.t.Errorf("%s: repeated: %+v, %v; want ErrOutcomeUnknown", key, again, err)
	}
	if !errors.Is(statusErr, ErrOutcomeUnknown) || status.State != "" {
		f.t.Errorf("%s: the status is %+v, %v; want ErrOutcomeUnknown", key, status, statusErr)
	}
}

// TestStatus_R08_HotStandby asks a hot standby. It grants the call's lock at once, whoever holds it on the primary, and
// knows nothing of what it has not replayed.
func TestStatus_R08_HotStandby(t *testing.T) {
	t.Parallel()
	primary := ownServer(t, devpg.StartOwn, &devpg.Config{})
	f, _, _ := wiredAt(t, primary, nil, 8)
	standby := ownServer(t, func(ctx context.Context, cfg *devpg.Config) (*devpg.Server, error) {
		return devpg.StartStandby(ctx, primary, cfg)
	}, &devpg.Config{})
	pool := dbtest.PoolAt(t, standby.URL(), nil)
	blind, err := New(pool, &Config{Policy: &Policy{CommitTimeout: 2 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(what string) {
		t.Helper()
		status, err := blind.Resolve(t.Context(), request("k"))
		if !errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) || status.State != "" {
			t.Errorf("%s: Resolve says %+v, %v; want ErrOutcomeUnknown", what, status, err)
		}
		status, err = blind.Status(t.Context(), request("k"))
		if !errors.Is(err, ErrOutcomeUnknown) || !Retryable(err) || status.State != "" {
			t.Errorf("%s: Status says %+v, %v; want ErrOutcomeUnknown", what, status, err)
		}
		for _, key := range []string{"k", "leased"} { // a standby has no claims to give
			got, err := RunLeased(t.Context(), blind, request(key), neverDo(t), neverAsk(t))
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "recovery") || !Retryable(err) || got.Raw != nil {
				t.Errorf("%s: RunLeased gave %+v, %v; want ErrUnavailable that names the recovery", what, got, err)
			}
		}
		for _, level := range isolationLevels {
			req := request("k")
			req.Policy = &Policy{Isolation: level}
			got, err := Run(t.Context(), blind, req, writes("standby"))
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "recovery") || !Retryable(err) || got.Raw != nil {
				t.Errorf("%s: Run at %s gave %+v, %v; want ErrUnavailable that names the recovery", what, level, got, err)
			}
		}
	}
	// replayed reports whether the standby has the record.
	replayed := func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `select count(*) from txonce.call`).Scan(&n)
		return err == nil && n > 0
	}
	onStandby := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}

	eventually(t, "the standby has the table", func() bool {
		_, err := pool.Exec(t.Context(), `select from txonce.call`)
		return err == nil
	})
	ask("never made")
	running := f.hold(request("k"), "k")
	ask("running on the primary")
	onStandby(`select pg_wal_replay_pause()`)
	eventually(t, "the replay is paused", func() bool {
		var state string
		err := pool.QueryRow(t.Context(), `select pg_get_wal_replay_pause_state()`).Scan(&state)
		return err == nil && state == "paused"
	})
	if err := running.end(nil); err != nil {
		t.Fatal(err)
	}
	if replayed() {
		t.Fatal("the replay is not paused")
	}
	ask("committed and not replayed")
	f.resolverOnStandby(blind)
	onStandby(`select pg_wal_replay_resume()`)
	eventually(t, "the standby has the record", replayed)
	ask("committed and replayed")
	if n := f.effects("standby"); n != 0 {
		t.Errorf("%d effects through the standby", n)
	}

	onStandby(`select pg_promote()`) // now it can know
	if status, err := blind.Resolve(t.Context(), request("k")); err != nil || status.State != toolcall.StateSucceeded {
		t.Errorf("promoted: Resolve says %+v, %v", status, err)
	}
	if got, err := Run(t.Context(), blind, request("k"), writes("standby")); err != nil || !got.Replayed || got.Value != "done k" {
		t.Errorf("promoted: %+v, %v; want the replay", got, err)
	}
	f.clean()
}

// resolverOnStandby cuts calls on the primary whose outcome only the standby could be asked for, as behind a name that leads
// to either of the two.
func (f *fixture) resolverOnStandby(blind *Store) {
	f.t.Helper()
	split, err := New(f.pool, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	split.reserve = blind.reserve
	for _, cut := range []aCut{cutsBefore[1], cutsAfter[1], cutsAfter[3]} {
		run := 0
		handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
			run++
			err := writeRun(ctx, tx, cut.name, run)
			if run == 1 {
				wireOf(tx).Arm(cut.fault)
			}
			return "done", err
		}
		if got, err := Run(f.t.Context(), split, request(cut.name), handler); !errors.Is(err, ErrOutcomeUnknown) || run != 1 {
			f.t.Errorf("%s, and only a standby to ask: %+v, %v, %d runs; want ErrOutcomeUnknown", cut.name, got, err, run)
		}
		got, err := Run(f.t.Context(), f.store, request(cut.name), handler)
		if effects := f.ran()[cut.name]; err != nil || len(effects) != 1 || got.Replayed != (effects[0] == 1) {
			f.t.Errorf("%s, repeated: %+v, %v, effects of the runs %v", cut.name, got, err, effects)
		}
	}
}
