package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// TestNetwork_R08_R15_BadWeather has callers work through a network with one illness after the other.
func TestNetwork_R08_R15_BadWeather(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := shared(t, p)
		net := newNetwork(t, s)
		var lines counted
		w := newWorld(t, s, &txidem.Policy{CommitTimeout: 2 * time.Second}, func(cfg *pgxpool.Config) {
			net.route(cfg)
			cfg.ConnConfig.DialFunc = lines.connect(cfg.ConnConfig.DialFunc)
		})
		l := newLoad(w, byRun, byBatch)
		l.deadline = 3 * time.Second
		l.start()
		// slow reports whether statements take as long as the weather has them take, of which a healthy network makes no more than a few
		// milliseconds.
		slow := func(sql string, times int, least time.Duration) func(int64) bool {
			return func(int64) bool {
				conn, err := w.pool.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return false
				}
				defer conn.Release()
				begun := time.Now()
				for range times {
					if _, err := conn.Exec(t.Context(), sql); err != nil {
						t.Error(err)
					}
				}
				return time.Since(begun) >= least
			}
		}
		cut := func(before int64) bool { return lines.cut.Load() > before }
		for _, weather := range []struct {
			toxics []toxic
			hears  string           // what some callers must hear
			shows  func(int64) bool // that it is there, where callers hear nothing; it is told how often a connection was cut before
		}{
			{[]toxic{{"latency", up, 1, map[string]int64{"latency": 10, "jitter": 10}}, {"latency", down, 1, map[string]int64{"latency": 10, "jitter": 10}}}, "", slow(`select 1`, 20, 100*time.Millisecond)},
			{[]toxic{{"bandwidth", up, 1, map[string]int64{"rate": 64}}, {"bandwidth", down, 1, map[string]int64{"rate": 64}}}, "", slow(`select repeat('x', 65536)`, 1, 500*time.Millisecond)},
			{[]toxic{{"reset_peer", up, 0.4, map[string]int64{"timeout": 30}}}, "", cut},
			{[]toxic{{"limit_data", up, 0.4, map[string]int64{"bytes": 3000}}, {"limit_data", down, 0.4, map[string]int64{"bytes": 1500}}}, "", cut},
			{[]toxic{{"timeout", up, 0.5, nil}, {"timeout", down, 0.5, nil}}, "deadline", nil},
		} {
			before, shown := lines.cut.Load(), false
			for range 30 { // which connections are ill is drawn each time
				net.infect(weather.toxics...)
				if weather.hears == "" {
					l.answered(30) // some on each connection
					shown = weather.shows(before)
				} else {
					l.hears(weather.hears, lanesOfLoad)
					shown = true
				}
				net.heal()
				if shown {
					break
				}
			}
			if !shown {
				t.Errorf("nothing shows of %+v", weather.toxics)
			}
			l.answered(4)
		}
		l.end()
		w.clean()
	})
}

// TestNetwork_R20_HalfOpenInsideAHandler has the network swallow everything while a handler is in its transaction.
func TestNetwork_R20_HalfOpenInsideAHandler(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		const idleInTx = 2 * time.Second
		s := shared(t, p)
		net := newNetwork(t, s)
		w := newWorld(t, s, &txidem.Policy{IdleInTx: idleInTx}, net.route)
		_, elsewhere := w.process(&txidem.Policy{Wait: idleInTx + 5*time.Second}, nil)

		there, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		var got txidem.Result[string]
		go func() {
			var err error
			got, err = txidem.Run(t.Context(), w.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
				err := w.write(ctx, tx, "k", "vanished", "")
				close(there)
				<-goOn
				return "vanished", err
			})
			ended <- err
		}()
		<-there
		net.infect(toxic{"timeout", up, 1, nil}, toxic{"timeout", down, 1, nil})

		again := func(wait time.Duration) (txidem.Result[string], error) {
			req := request("k")
			req.Policy = &txidem.Policy{Wait: wait}
			return txidem.Run(t.Context(), elsewhere, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
				return "second", w.write(ctx, tx, "k", "second", "")
			})
		}
		var running *txidem.InProgressError
		if _, err := again(txidem.NoWait); !errors.As(err, &running) || running.RetryAfter <= 0 {
			t.Errorf("meanwhile a duplicate hears %v, want an InProgressError", err)
		}
		if status, err := elsewhere.Status(t.Context(), request("k")); err != nil || status.State != toolcall.StateRunning {
			t.Errorf("meanwhile the status is %+v, %v; want running", status, err)
		}
		if second, err := again(0); err != nil || second.Replayed || second.Value != "second" {
			t.Errorf("%v after the client vanished a duplicate got %+v, %v; want to run", idleInTx+5*time.Second, second, err)
		}
		net.heal()
		close(goOn)
		if err := <-ended; err != nil || !got.Replayed || got.Value != "second" {
			t.Errorf("the client that vanished got %+v, %v; want the duplicate's answer", got, err)
		}
		if runs := w.effects()["k"]; len(runs) != 1 || runs[0] != "second" {
			t.Errorf("I1: the effects are of the runs %q", runs)
		}
	})
}
