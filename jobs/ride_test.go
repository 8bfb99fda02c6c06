package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/toolcall"
)

// later keeps jobs from workers.
func later() *SubmitOpts { return &SubmitOpts{Scope: scope, RunAt: time.Now().Add(time.Hour)} }

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
