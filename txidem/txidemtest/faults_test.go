package txidemtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/txidem"
)

func always(call func(context.Context, *pgxpool.Pool, int) ([]byte, error)) func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return func(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) { return call }
}

func outsideTx(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := pool.Exec(ctx, sqlEffect, intent)
	return "done", err
}

func upsertOutsideTx(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := pool.Exec(ctx, `insert into effect select $1 where not exists (select from effect where intent = $1)`, intent)
	return "done", err
}

func inADefer(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	defer func() { _, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent) }()
	_, err := tx.Exec(ctx, sqlNote, intent)
	return "done", err
}

func afterRun(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	ran := false
	raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		ran = true
		_, err := tx.Exec(ctx, sqlNote, intent)
		return "done", err
	})
	if ran && err == nil {
		_, err = pool.Exec(ctx, sqlEffect, intent)
	}
	return raw, err
}

func beforeRun(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	if _, err := pool.Exec(ctx, sqlEffect, intent); err != nil {
		return nil, err
	}
	return run(ctx, pool, request(intent), intent, func(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		_, err := tx.Exec(ctx, sqlNote, intent)
		return "done", err
	})
}

func whereCtxEnded(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, err := insert(ctx, pool, tx, intent)
	if ctx.Err() != nil {
		_, err = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
	}
	return "done", err
}

func outlives(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	go func() {
		<-ctx.Done()                         // the call is over
		<-time.After(300 * time.Millisecond) // and all has been counted, unless somebody waits for this goroutine
		_, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
	}()
	return insert(ctx, pool, tx, intent)
}

func inAGoroutine(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	go func() { _, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent) }()
	_, err := tx.Exec(ctx, sqlNote, intent)
	return "done", err
}

func rawCommit(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	_, err := tx.Exec(ctx, `commit`)
	return "done", err
}

func rawCommitAndBegin(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := insert(ctx, pool, tx, intent); err != nil {
		return "", err
	}
	return "done", tx.Conn().PgConn().Exec(ctx, `commit; begin`).Close()
}

func keptTx(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	var kept pgx.Tx
	raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		kept = tx
		return insert(ctx, pool, tx, intent)
	})
	if err == nil && kept != nil {
		_, err = kept.Exec(ctx, sqlNote, intent)
	}
	return raw, err
}

// keptConn writes through a connection that is the pool's again, once: two that use it at the same time break pgx itself.
func keptConn(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		var kept *pgx.Conn
		raw, err := run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
			if next() == 1 {
				kept = tx.Conn()
			}
			return insert(ctx, pool, tx, intent)
		})
		if err == nil && kept != nil {
			_, err = kept.Exec(ctx, sqlEffect, intent)
		}
		return raw, err
	}
}

func neverReleased(t *testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return "", err
		}
		t.Cleanup(conn.Release) // or this process would not end well
		return insert(ctx, pool, tx, intent)
	})
}

func leftOpen(t *testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		own, err := pool.Begin(ctx)
		if err != nil {
			return "", err
		}
		t.Cleanup(func() { _ = own.Rollback(context.WithoutCancel(ctx)) })
		return insert(ctx, pool, tx, intent)
	})
}

func sessionLock(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	if _, err := tx.Exec(ctx, `select pg_advisory_lock($1)`, intent); err != nil {
		return "", err
	}
	return insert(ctx, pool, tx, intent)
}

func swallows(ctx context.Context, _ *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	_, _ = tx.Exec(ctx, sqlEffect, intent)
	return "done", nil
}

func swallowsInSavepoint(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	if _, err := insert(ctx, pool, inner, intent); err != nil {
		return "done", inner.Rollback(ctx)
	}
	return "done", inner.Commit(ctx)
}

func leavesSavepoint(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return "", err
	}
	if _, err := insert(ctx, pool, inner, intent); err == nil {
		_ = inner.Commit(ctx)
	}
	return "done", nil
}

func alwaysDone(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	_, err := run(ctx, pool, request(intent), intent, insert)
	if errors.Is(err, txidem.ErrInProgress) {
		return nil, err
	}
	return []byte("done"), nil
}

// memory is what a process remembers of intents.
type memory struct{ sync.Map }

func (m *memory) has(intent int) bool { _, ok := m.Load(intent); return ok }

func remembers(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	m := &memory{}
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		if m.has(intent) {
			return []byte(`"done"`), nil
		}
		return run(ctx, pool, request(intent), intent, func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
			answer, err := insert(ctx, pool, tx, intent)
			if err == nil {
				m.Store(intent, true)
			}
			return answer, err
		})
	}
}

func handlerRemembers(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	m := &memory{}
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		if m.has(intent) {
			return "done", nil
		}
		defer m.Store(intent, true)
		return insert(ctx, pool, tx, intent)
	})
}

// counter returns a function that gives another number each time.
func counter() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}

func keyPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		req := request(intent)
		req.Key = fmt.Sprint(req.Key, "-", next())
		return run(ctx, pool, req, intent, insert)
	}
}

func keyPerProcess(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	req := request(intent)
	req.Key = fmt.Sprint(req.Key, "-", os.Getpid())
	return run(ctx, pool, req, intent, insert)
}

func otherKeyAfterAnError(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	req := request(intent)
	raw, err := run(ctx, pool, req, intent, insert)
	if err != nil {
		req.Key += "-again"
		return run(context.WithoutCancel(ctx), pool, req, intent, insert)
	}
	return raw, nil
}

func argsPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		req := request(intent)
		req.Args = fmt.Appendf(nil, `{"nonce":%d}`, next())
		return run(ctx, pool, req, intent, insert)
	}
}

// muchLater writes for the first intent when the handler runs for the tenth.
func muchLater(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	tenth, next := make(chan struct{}), counter()
	return calls(func(ctx context.Context, pool *pgxpool.Pool, tx pgx.Tx, intent int) (string, error) {
		switch next() {
		case 1:
			go func() {
				<-tenth
				_, _ = pool.Exec(context.WithoutCancel(ctx), sqlEffect, intent)
			}()
		case 10:
			close(tenth)
		}
		return insert(ctx, pool, tx, intent)
	})
}

func looksFirst(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		var n int
		if err := pool.QueryRow(ctx, sqlCount, intent).Scan(&n); err != nil || n > 0 {
			return []byte(`"done"`), err
		}
		req := request(intent)
		req.Key = fmt.Sprint(req.Key, "-", next())
		return run(ctx, pool, req, intent, insert)
	}
}

func answerPerAttempt(*testing.T) func(context.Context, *pgxpool.Pool, int) ([]byte, error) {
	next := counter()
	return func(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
		raw, err := run(ctx, pool, request(intent), intent, insert)
		return fmt.Appendf(raw, " at %d", next()), err
	}
}

func nested(ctx context.Context, pool *pgxpool.Pool, _ pgx.Tx, intent int) (string, error) {
	_, err := run(ctx, pool, request(-intent), intent, insert)
	return "done", err
}

func unprotected(ctx context.Context, pool *pgxpool.Pool, intent int) ([]byte, error) {
	_, err := pool.Exec(ctx, `insert into effect select $1 where not exists (select from effect where intent = $1)`, intent)
	return []byte("done"), err
}
