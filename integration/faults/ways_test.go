package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/txidem"
)

// attempt is one call of a caller. Each run of its handler has a name, which is the answer, and stands on its effect.
type attempt struct {
	key  string
	runs []string
}

func (a *attempt) begin() string {
	run := rand.Text()
	a.runs = append(a.runs, run)
	return run
}

// way is how a call is made. It returns the answer.
type way func(ctx context.Context, w *world, a *attempt) (string, error)

// errHandler marks what the handler itself returns.
var errHandler = errors.New("the handler's statement failed")

const sqlEffect = `insert into effect (key, run, wide) values ($1, $2, $3)`

func (w *world) write(ctx context.Context, tx pgx.Tx, key, run, wide string) error {
	if _, err := tx.Exec(ctx, sqlEffect, key, run, wide); err != nil {
		return fmt.Errorf("%w: %w", errHandler, err)
	}
	return nil
}

// byRun has an effect, and a second round trip in which something may go wrong.
func byRun(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.Run(ctx, w.store, request(a.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		run := a.begin()
		if err := w.write(ctx, tx, a.key, run, ""); err != nil {
			return "", err
		}
		if _, err := tx.Exec(ctx, `select pg_sleep(0.003)`); err != nil {
			return "", fmt.Errorf("%w: %w", errHandler, err)
		}
		return run, nil
	})
	return got.Value, err
}

func byBatch(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.RunBatch(ctx, w.store, request(a.key), func(_ context.Context, b *txidem.Batch) (string, error) {
		run := a.begin()
		b.MustAffect(1, sqlEffect, a.key, run, "")
		return run, nil
	})
	return got.Value, err
}

// byJob submits a job, whose id names the run.
func byJob(ctx context.Context, w *world, a *attempt) (string, error) {
	got, err := txidem.Run(ctx, w.store, request(a.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		handle, err := w.staff.report.SubmitTx(ctx, tx, w.staff.runner, task{a.key}, nil)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errHandler, err)
		}
		a.runs = append(a.runs, handle.JobID)
		return handle.JobID, nil
	})
	return got.Value, err
}

// byMessage has an effect and publishes a message that tells of it.
func byMessage(ctx context.Context, w *world, a *attempt) (string, error) {
	w.staff.shop.expects(a.key)
	got, err := txidem.Run(ctx, w.store, request(a.key), func(ctx context.Context, tx pgx.Tx) (string, error) {
		run := a.begin()
		if err := w.write(ctx, tx, a.key, run, ""); err != nil {
			return "", err
		}
		_, err := w.staff.box.PublishTx(ctx, tx, outbox.Message{Destination: "shop", Body: []byte(a.key + " " + run)})
		return run, err
	})
	return got.Value, err
}
