package jobs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// counted is a connection whose round trips are counted: each time that the client writes after it has read.
type counted struct {
	net.Conn
	read  *atomic.Bool
	turns *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Store(true)
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	if c.read.Swap(false) {
		c.turns.Add(1)
	}
	return c.Conn.Write(p)
}

// countedPool is another pool on the database, of one connection.
func (f *fixture) countedPool() (*pgxpool.Pool, *atomic.Int64) {
	f.t.Helper()
	turns := &atomic.Int64{}
	cfg := f.pool.Config()
	cfg.MaxConns, cfg.MinConns = 1, 0
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return counted{conn, &atomic.Bool{}, turns}, err
	}
	pool, err := pgxpool.NewWithConfig(f.t.Context(), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(pool.Close)
	return pool, turns
}

// later keeps River from waking workers, which is a round trip of its own.
func later() *SubmitOpts { return &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour)} }

func TestSubmitTx_J01_CostsOneRoundTrip(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, nil, d)
	pool, turns := f.countedPool()
	for i := range 4 { // the first ones describe the statements
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			before := turns.Load()
			_, err := d.SubmitTx(t.Context(), tx, f.Runner, in{Label: "a"}, later())
			if n := turns.Load() - before; i == 3 && n != 1 {
				t.Errorf("%d round trips, want 1", n)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.bellsAreRight(4)
}

// bellsAreRight compares each job with the doorbell that carries its id.
func (f *fixture) bellsAreRight(want int) {
	f.t.Helper()
	if n := get[int](f, `select count(*)::int from txonce.job j join txonce_river.river_job b on b.id = j.bell and b.args ->> 'job' = j.id::text`); n != want {
		f.t.Errorf("%d jobs have their doorbell, want %d", n, want)
	}
	for _, table := range []string{"txonce.job", "txonce_river.river_job"} {
		if n := get[int](f, `select count(*)::int from `+table); n != want {
			f.t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
}

// numbering gives doorbells ids that are not of River's sequence.
func numbering(cfg *river.Config) {
	var last atomic.Int64
	cfg.Hooks = append(cfg.Hooks, river.HookInsertBeginFunc(func(_ context.Context, params *rivertype.JobInsertParams) error {
		id := 1_000_000 + last.Add(1)
		params.ID = &id
		return nil
	}))
}

// TestSubmitTx_J01_FindsItsDoorbell, whatever others do to River's insert.
func TestSubmitTx_J01_FindsItsDoorbell(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		configure func(*river.Config)
		sql       string
	}{
		"as it is":              {},
		"ids of another source": {configure: numbering},
		"a trigger that takes numbers": {sql: `
			create sequence other start 500;
			create function note() returns trigger language plpgsql as $$ begin perform nextval('other'); return new; end $$;
			create trigger note after insert on txonce_river.river_job for each row execute function note()`},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			d := plainly("plain", nil)
			cfg := quick()
			cfg.Configure = c.configure
			f := setup(t, cfg, d)
			if c.sql != "" {
				f.exec(c.sql)
			}
			submit(f, d, in{Label: "a"}, later())
			submit(f, d, in{Label: "b"}, later())
			f.bellsAreRight(2)
			f.start(f.Runner)
			f.await(submit(f, d, in{Label: "c"}, nil), toolcall.StateSucceeded)
		})
	}
}

// TestSubmitTx_J01_WhatFailsIsUndoneAlone: whichever of the two statements fails, the error says why, and the transaction goes on
// behind its savepoint.
func TestSubmitTx_J01_WhatFailsIsUndoneAlone(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"txonce.job", "txonce_river.river_job"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			d := plainly("plain", nil)
			f := setup(t, nil, d)
			submit(f, d, in{Label: "a"}, later())
			f.exec(`create function no() returns trigger language plpgsql as $$ begin raise 'not today'; end $$;
				create trigger no before insert on ` + table + ` for each row execute function no()`)
			err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
				err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
					_, err := d.SubmitTx(t.Context(), tx, f.Runner, in{Label: "b"}, &SubmitOpts{Scope: scope})
					return err
				})
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "not today") {
					t.Errorf("got %v", err)
				}
				return write(t.Context(), tx, "goes on")
			})
			if err != nil {
				t.Error(err)
			}
			f.bellsAreRight(1)
			f.effectsAre(map[string]int{"goes on": 1})
		})
	}
}

// TestSubmitTx_J01_UndoneWithItsSavepoint leaves neither a job nor a doorbell.
func TestSubmitTx_J01_UndoneWithItsSavepoint(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, nil, d)
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), f.pool, func(tx pgx.Tx) error {
		err := pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
			if _, err := d.SubmitTx(t.Context(), tx, f.Runner, in{Label: "a"}, later()); err != nil {
				return err
			}
			return undo
		})
		if !errors.Is(err, undo) {
			return err
		}
		_, err = d.SubmitTx(t.Context(), tx, f.Runner, in{Label: "b"}, later())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.bellsAreRight(1)
}
