package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// soakKind is a kind of operation.
type soakKind struct {
	name    string
	percent int
	do      func(ctx context.Context, key string) error
}

// kinds are the mix.
func (w *soakWorld) kinds() []soakKind {
	return []soakKind{
		{"first calls", 35, w.first},
		{"replays", 25, w.replay},
		{"recorded failures, twice each", 5, w.refused},
		{"errors, then the same call", 5, w.broken},
		{"jobs, with a question", 10, w.submit},
		{"messages", 10, w.publish},
		{"questions for a call", 10, w.ask},
	}
}

func (w *soakWorld) first(ctx context.Context, key string) error {
	_, err := w.make(ctx, key)
	return err
}

// make makes a first call, which others may repeat.
func (w *soakWorld) make(ctx context.Context, key string) (knownCall, error) {
	at := time.Now()
	result, err := txidem.Run(ctx, w.link.store, request(key), w.link.handler(key))
	if err == nil && result.Replayed {
		err = errors.New("a new call was answered from a record")
	}
	if err != nil {
		return knownCall{}, err
	}
	w.soak.books.effects.Add(1)
	made := knownCall{key, result.Value, at}
	w.recent.add(made)
	return made, nil
}

// known returns a call that is still remembered for a while.
func (w *soakWorld) known(ctx context.Context, key string) (knownCall, error) {
	if c, ok := w.recent.pick(w.soak.options.retention() / 2); ok {
		return c, nil
	}
	return w.make(ctx, key)
}

var errRanAgain = errors.New("a recorded call ran again")

// forgotten says whether what was recorded since then may have expired already, on a machine that stood still for so long.
func (w *soakWorld) forgotten(since time.Time) bool {
	return time.Since(since) > w.soak.options.retention()
}

// replay repeats a call.
func (w *soakWorld) replay(ctx context.Context, key string) error {
	c, err := w.known(ctx, key)
	if err != nil {
		return err
	}
	var result txidem.Result[receipt]
	for again := true; again; again = errors.Is(err, txidem.ErrInProgress) { // another one that is slow repeats it, too
		result, err = txidem.Run(ctx, w.link.store, request(c.key), func(context.Context, pgx.Tx) (receipt, error) {
			return receipt{}, errRanAgain
		})
	}
	switch {
	case errors.Is(err, errRanAgain) && w.forgotten(c.at):
		return nil
	case err == nil && (!result.Replayed || result.Value != c.answer):
		return fmt.Errorf("a replay answers %+v, and the call had answered %+v", result.Value, c.answer)
	}
	return err
}

// refused makes a call that fails for good, and repeats it.
func (w *soakWorld) refused(ctx context.Context, key string) error {
	const code = "refused"
	began := time.Now()
	for _, replayed := range []bool{false, true} {
		result, err := txidem.Run(ctx, w.link.store, request(key), func(ctx context.Context, tx pgx.Tx) (receipt, error) {
			answer, err := w.link.effect(ctx, tx, key)
			return answer, errors.Join(err, txidem.Fail(code, "this order cannot be refunded"))
		})
		if replayed && !result.Replayed && w.forgotten(began) {
			return nil
		}
		var failure *toolcall.Failure
		if !errors.As(err, &failure) || failure.Code != code || result.Replayed != replayed {
			return fmt.Errorf("a call that is refused (again: %v) ended in %w, replayed: %v", replayed, err, result.Replayed)
		}
	}
	return nil
}

var errBroken = errors.New("the handler broke")

// broken makes a call whose handler breaks, which frees the key, and makes it again.
func (w *soakWorld) broken(ctx context.Context, key string) error {
	_, err := txidem.Run(ctx, w.link.store, request(key), func(ctx context.Context, tx pgx.Tx) (receipt, error) {
		answer, err := w.link.effect(ctx, tx, key)
		return answer, errors.Join(err, errBroken)
	})
	if !errors.Is(err, errBroken) {
		return fmt.Errorf("a call whose handler breaks ended in %w", err)
	}
	return w.first(ctx, key)
}

// submit makes a call that submits a job, and asks for the job's status.
func (w *soakWorld) submit(ctx context.Context, key string) error {
	books := &w.soak.books
	job := w.board.issue(func(err error) {
		if err != nil {
			books.fail(fmt.Errorf("an attempt of a job: %w", err))
			return
		}
		books.effects.Add(1)
		books.worked.Add(1)
	})
	result, err := txidem.Run(ctx, w.link.store, request(key), func(ctx context.Context, tx pgx.Tx) (jobs.Handle, error) {
		return w.definition.SubmitTx(ctx, tx, w.runner, argsFor(job.number), nil)
	})
	if err != nil {
		return err
	}
	books.submitted.Add(1)
	id, err := toolcall.ParseID(result.Value.JobID)
	if err != nil {
		return err
	}
	return w.askFor(ctx, id)
}

// publish makes a call that has an effect and publishes a message, with one of some ordering keys.
func (w *soakWorld) publish(ctx context.Context, key string) error {
	n := int(w.soak.books.published.Add(1))
	m := messageOf(keyOf(n%soakKeys, soakKeys), strconv.Itoa(n))
	if err := publishByCall(ctx, w.link, w.outbox, key, m, w.link.handler(key)); err != nil {
		return err
	}
	w.trips.committed(n, time.Now())
	w.soak.books.effects.Add(1)
	return nil
}

// ask asks for the status of a call, with its messages if it has any.
func (w *soakWorld) ask(ctx context.Context, key string) error {
	c, err := w.known(ctx, key)
	if err != nil {
		return err
	}
	if err := w.askFor(ctx, idOf(c.key)); !w.forgotten(c.at) {
		return err
	}
	return nil
}

func (w *soakWorld) askFor(ctx context.Context, id toolcall.ID) error {
	if code, body := get(ctx, w.status, id, ""); code != http.StatusOK {
		return fmt.Errorf("the status tool answered %d: %s", code, body)
	}
	return nil
}
