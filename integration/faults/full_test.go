package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/txidem"
)

// The SQLSTATEs of a server that is full.
const (
	diskFull           = "53100"
	tooManyConnections = "53300"
)

// TestDiskFull_R15_CallsSaySoAndGoOn fills the server's disk. Some calls have no room for their effects, others none for their
// records.
func TestDiskFull_R15_CallsSaySoAndGoOn(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		if !p.Container() {
			t.Skip("only a container bounds the room of a server; run make pg-image, and unset " + servers.EnvServers)
		}
		s := p.ForTest(t, &servers.Config{Megabytes: 320, Parameters: map[string]string{
			"autovacuum": "off", "checkpoint_timeout": "1h", "min_wal_size": "96MB", "max_wal_size": "192MB", // nothing makes room by itself
		}})
		w := newWorld(t, s, nil, nil)
		w.reserveLog()
		l := newLoad(w, byWideEffect, byWideBatch, byWideAnswer).start()
		l.answered(6)
		w.fill()
		l.hears(diskFull, 30)
		w.exec(`drop table filler`)
		l.answered(6)
		l.end()
		w.clean()
	})
}

// reserveLog has the server make segments of its log in advance: without room for the log it would stop altogether.
func (w *world) reserveLog() {
	w.t.Helper()
	for range 4 {
		w.exec(`create table spare ()`)
		w.exec(`drop table spare`)
		w.exec(`select pg_switch_wal()`)
	}
	w.exec(`checkpoint`)
}

// fill leaves no room for a page. The filler is not in the log.
func (w *world) fill() {
	w.t.Helper()
	w.exec(`create unlogged table filler (wide text); alter table filler alter wide set storage plain`)
	for pages := 1024; pages > 0; {
		_, err := w.books.Exec(w.t.Context(), `insert into filler select repeat('x', 8000) from generate_series(1, $1)`, pages)
		switch {
		case isDiskFull(err):
			pages /= 8
		case err != nil:
			w.t.Fatal(err)
		}
	}
}

// wide is as much as half a page holds.
func wide() string { return strings.Repeat("x", 3500) }

func byWideEffect(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.Run(ctx, w.store, request(a.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		run := a.begin()
		return run, w.write(ctx, tx, a.key, run, wide())
	})
	return got.Value, err
}

func byWideBatch(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.RunBatch(ctx, w.store, request(a.key), func(_ context.Context, b *txidem.Batch) (string, error) {
		run := a.begin()
		b.MustAffect(1, sqlEffect, a.key, run, wide())
		return run, nil
	})
	if isDiskFull(err) && !errors.Is(err, txidem.ErrUnavailable) { // it is an error of the handler's own statement
		err = fmt.Errorf("%w: %w", errHandler, err)
	}
	return got.Value, err
}

func isDiskFull(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == diskFull
}

// byWideAnswer has a small effect, and an answer that cannot be compressed.
func byWideAnswer(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.Run(ctx, w.store, request(a.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		run, pad := a.begin(), make([]byte, 12_000)
		_, _ = rand.Read(pad)
		return fmt.Sprintf("%s %x", run, pad), w.write(ctx, tx, a.key, run, "")
	})
	run, _, _ := strings.Cut(got.Value, " ")
	return run, err
}
