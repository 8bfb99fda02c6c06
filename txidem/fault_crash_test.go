//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package txidem

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/devpg"
)

// TestRun_R02_ServerKilled kills the server with SIGKILL while 20 callers are at it, and starts it again: once all of it, and
// three times one of its backends, upon which it ends all others and recovers from its log.
func TestRun_R02_ServerKilled(t *testing.T) {
	t.Parallel()
	srv := ownServer(t, devpg.StartSupervised, &devpg.Config{})
	f, _, events := wiredAt(t, srv, &Policy{Wait: 20 * time.Second}, 20)
	const callers, each, crashes = 20, 20, 5
	var done, repeats, unknown atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				n := f.untilDone(name("k", caller, i), events)
				repeats.Add(n.repeats)
				unknown.Add(n.unknown)
				done.Add(1)
			}
		})
	}
	for crash := range crashes {
		eventually(t, "enough calls are done", func() bool { return done.Load() > int64(crash*callers*each/crashes) })
		eventually(t, "somebody is killed", func() bool {
			victim := srv.PID()
			if crash > 0 {
				victim = f.someBackend()
			}
			return syscall.Kill(victim, syscall.SIGKILL) == nil // a backend may have just ended
		})
	}
	wg.Wait()
	f.oneEffectEach(callers * each)
	f.clean()
	t.Logf("%d calls over %d crashes: %d repeated, %d of them after an unknown outcome", callers*each, crashes, repeats.Load(), unknown.Load())
}

// tries counts what became of the tries of one call.
type tries struct{ repeats, unknown int64 }

// untilDone repeats the call until it has an answer. What it hears until then must be retryable.
func (f *fixture) untilDone(key string, events *lastEvents) (n tries) {
	f.t.Helper()
	var run atomic.Int64
	handler := func(ctx context.Context, tx pgx.Tx) (string, error) {
		run := int(run.Add(1))
		return strconv.Itoa(run), writeRun(ctx, tx, key, run)
	}
	eventually(f.t, "the call has an answer", func() bool {
		got, err := Run(f.t.Context(), f.store, request(key), handler)
		if err == nil {
			return true
		}
		n.repeats++
		if events.last(got.ID).Decision == DecidedUnknown {
			n.unknown++
		}
		if !Retryable(err) {
			f.t.Errorf("%s: %v is not retryable", key, err)
		}
		<-time.After(50 * time.Millisecond) // for the server's sake
		return false
	})
	return n
}

// someBackend returns the process id of a backend, once the server answers.
func (f *fixture) someBackend() (pid int) {
	f.t.Helper()
	eventually(f.t, "the server answers", func() bool {
		err := f.pool.QueryRow(f.t.Context(), `select pid from pg_stat_activity where backend_type = 'client backend' limit 1`).Scan(&pid)
		return err == nil
	})
	return pid
}
