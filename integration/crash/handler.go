package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// errBroken is the plain error of a handler: a property of the moment.
var errBroken = errors.New("the handler broke")

// handler is the protected function of one call. It writes an effect and counts it, in two statements, and answers with
// what only this attempt can answer: another run of it is known by its answer.
type handler struct {
	worker *worker
	number int // of the call
	call   call
	runs   int
}

// attemptPrefix begins the names of all attempts of one call of one life.
func attemptPrefix(life, number int) string { return fmt.Sprintf("%d.%d.", life, number) }

func (h *handler) run(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	h.runs++
	attempt := fmt.Sprint(attemptPrefix(h.worker.a.Life, h.number), h.runs)
	reaper := h.worker.reaper
	reaper.handling(attempt)
	if err := h.effect(ctx, tx, attempt); err != nil {
		return nil, err
	}
	reaper.between()
	r := receipt{Attempt: attempt}
	if err := tx.QueryRow(ctx, sqlCount, h.call.Bucket).Scan(&r.Count, &r.Total); err != nil {
		return nil, err
	}
	if err := h.dawdle(ctx, tx); err != nil {
		return nil, err
	}
	if h.call.Break {
		return nil, errBroken
	}
	raw := r.encode()
	if err := h.tellTooEarly(ctx, raw); err != nil {
		return nil, err
	}
	reaper.handled()
	if h.call.Refuse {
		return nil, txidem.Fail("refused", refusedBy+attempt)
	}
	return raw, nil
}

func (h *handler) effect(ctx context.Context, tx pgx.Tx, attempt string) error {
	if h.worker.a.Plant == effectOutsideTx {
		_, err := h.worker.pool.Exec(ctx, sqlEffect, h.call.Intent, attempt)
		return err
	}
	_, err := tx.Exec(ctx, sqlEffect, h.call.Intent, attempt)
	return err
}

// dawdle makes the call long enough for others to come in between, and for a kill inside a statement.
func (h *handler) dawdle(ctx context.Context, tx pgx.Tx) error {
	var err error
	switch {
	case h.worker.reaper.wants(inStatement):
		_, err = tx.Exec(ctx, `select pg_sleep(0.05)`)
	case h.worker.reaper.wants(commitSlow):
		err = queueAtFinish(ctx, `select pg_sleep(3)`)
	case h.call.Slow:
		_, err = tx.Exec(ctx, `select pg_sleep(0.05)`)
	}
	return err
}

// queueAtFinish puts a statement in front of the record and COMMIT.
func queueAtFinish(ctx context.Context, sql string) error {
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errors.New("there is no call in the handler's context")
	}
	return current.AtFinish(func(b *pgx.Batch) { b.Queue(sql) })
}

func (h *handler) tellTooEarly(ctx context.Context, raw []byte) error {
	if h.worker.a.Plant != answerBeforeCommit || h.call.Refuse {
		return nil
	}
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errors.New("there is no call in the handler's context")
	}
	line, err := json.Marshal(answer{Intent: h.call.Intent, Call: h.number, Class: done, Raw: raw, ID: current.ID.String()})
	if err != nil {
		return err
	}
	_, err = h.worker.stdout.Write(append(line, '\n'))
	return err
}

// receipt is the result of a handler.
type receipt struct {
	Attempt string `json:"attempt"`
	Count   int    `json:"count"` // of its bucket
	Total   int    `json:"total"` // of all, as far as its snapshot has them
}

// encode writes it in a way in which no encoder would write it again: a replay that is not the stored bytes is found.
func (r receipt) encode() json.RawMessage {
	return fmt.Appendf(nil, "{ \"count\" : %d.0e0,\t\"attempt\":%q , \"total\":%d, \"note\":\"\\u0000<&>\" }", r.Count, r.Attempt, r.Total)
}

// refusedBy begins the message of a recorded failure, in front of the attempt.
const refusedBy = "by "

// attemptIn returns the attempt that gave an answer, or nothing if it cannot be read.
func attemptIn(raw []byte) string {
	var r struct{ Attempt, Message string }
	if err := json.Unmarshal(raw, &r); err != nil {
		return ""
	}
	return r.Attempt + strings.TrimPrefix(r.Message, refusedBy)
}
