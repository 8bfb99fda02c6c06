package faults

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
)

const idleConns = 4

// TestIdleConnectionsCut_R11_R15_NoCallerHearsOfIt cuts all connections of a pool while nobody uses them. The pool does not look
// after them before it gives them out, as pgx does not where they were used a moment ago.
func TestIdleConnectionsCut_R11_R15_NoCallerHearsOfIt(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := shared(t, p)
		net := newNetwork(t, s)
		w := newWorld(t, s, nil, func(cfg *pgxpool.Config) {
			net.route(cfg)
			cfg.MaxConns = idleConns
			cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		})
		l := newLoad(w)
		for name, cut := range map[string]func(){
			"the server ends them": func() { w.count(`select count(*) from (`+sqlCutAll+`) cut`, appName) },
			"the server finds them idle": func() {
				w.exec(`alter database ` + w.place.Database + ` set idle_session_timeout = '100ms'`)
				w.count(`select count(*) from (`+sqlCutAll+`) cut`, appName)
				w.pool.Reset()
				w.fillPool()
				w.exec(`alter database ` + w.place.Database + ` reset idle_session_timeout`)
			},
			"the network does": net.cut,
		} {
			for _, callers := range []int{1, idleConns} {
				for way, by := range map[string]way{"run": byRun, "batch": byBatch} {
					w.fillPool()
					cut()
					eventually(t, "the server has no session of the pool", func() bool {
						return w.count(sqlSessions, appName) == 0
					})
					var all sync.WaitGroup
					for range callers {
						all.Go(func() {
							_, key := l.newKey()
							a := &attempt{key: key}
							for range callersOfKey {
								answer, err := by(t.Context(), w, a)
								if err != nil {
									t.Errorf("%s, %d at once, %s: a caller hears %v", name, callers, way, err)
								}
								l.note(a, answer, err)
							}
						})
					}
					all.Wait()
				}
			}
		}
		l.judge()
		w.clean()
	})
}

// fillPool has the pool open all its connections, and use them.
func (w *world) fillPool() {
	w.t.Helper()
	var conns []*pgxpool.Conn
	for range w.pool.Config().MaxConns {
		conn, err := w.pool.Acquire(w.t.Context())
		for err == nil && conn.Ping(w.t.Context()) != nil { // it is one that was cut
			conn.Release()
			conn, err = w.pool.Acquire(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
}
