package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// errBroken is the plain error of a handler: a property of the moment.
var errBroken = errors.New("the handler broke")

var errNoCall = errors.New("there is no call in the handler's context")

// handler is the protected function of one call. It writes an effect and counts it, in two statements, and answers with
// what only this attempt can answer: another run of it is known by its answer.
type handler struct {
	worker *worker
	number int // of the call
	call   call
	runs   int
	asked  bool // a leased call asked the other system
}

// Times of the policy that are generous, for the machine may be busy and the run may be long: a client that was killed is
// noticed at once, and no record is to expire before it was compared. A lease is short, for others must wait for its end.
const (
	idleInTx = 20 * time.Second
	keep     = 30 * 24 * time.Hour
	lease    = time.Second
)

// attempts is how often a handler may run when Postgres asks for it: calls that fight for one counter need a few.
const attempts = 20

func (h *handler) request() txidem.Request {
	c := h.call
	policy := &txidem.Policy{
		Wait: c.Wait, IdleInTx: idleInTx, Isolation: c.Isolation, Attempts: attempts, Window: keep, Retention: keep, Lease: lease,
	}
	if c.Lost == reruns {
		policy.OnLeaseLost = txidem.RerunLost
	}
	key := c.Key
	if h.worker.a.Plant == keyPerAttempt {
		key = fmt.Sprintf("%s-%d-%d", key, h.worker.a.Life, h.number)
	}
	return txidem.Request{Scope: scope, Tool: c.Tool, Key: key, Args: c.Args, Policy: policy}
}

// begin is the beginning of a run. It returns the name of the attempt.
func (h *handler) begin() string {
	h.runs++
	attempt := attemptName(h.worker.a.Life, h.number, h.runs, h.call.Mode)
	h.worker.reaper.handling(attempt)
	return attempt
}

func (h *handler) run(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
	attempt := h.begin()
	reaper := h.worker.reaper
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

const (
	sqlPause = `select pg_sleep(0.05)`
	sqlSlow  = `select pg_sleep(3)` // outlives who dies behind it
)

// dawdle makes the call long enough for others to come in between, and for a kill inside a statement.
func (h *handler) dawdle(ctx context.Context, tx pgx.Tx) error {
	var err error
	switch {
	case h.worker.reaper.wants(inStatement):
		_, err = tx.Exec(ctx, sqlPause)
	case h.call.Mode == runMode && h.worker.reaper.wants(commitSlow):
		err = queueAtFinish(ctx, sqlSlow)
	case h.call.Slow:
		_, err = tx.Exec(ctx, sqlPause)
	}
	return err
}

// queueAtFinish puts a statement in front of the record and COMMIT.
func queueAtFinish(ctx context.Context, sql string) error {
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errNoCall
	}
	return current.AtFinish(func(b *pgx.Batch) { b.Queue(sql) })
}

func (h *handler) tellTooEarly(ctx context.Context, raw []byte) error {
	if h.worker.a.Plant != answerBeforeCommit || h.call.Refuse {
		return nil
	}
	current, ok := toolcall.FromContext(ctx)
	if !ok {
		return errNoCall
	}
	line, err := json.Marshal(answer{Mode: h.call.Mode, Intent: h.call.Intent, Call: h.number, Class: done, Raw: raw, ID: current.ID.String()})
	if err != nil {
		return err
	}
	_, err = h.worker.stdout.Write(append(line, '\n'))
	return err
}

// receipt is the result of a handler. One that cannot read counts nothing.
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
