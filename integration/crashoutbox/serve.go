package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Times of the tool's policy that are generous, for the machine may be busy and the run may be long: a server that was killed
// is noticed at once, and no record is to expire before it was compared.
const (
	idleInTx = 20 * time.Second
	keep     = 30 * 24 * time.Hour
)

// scope is who makes the calls.
const scope = "crash"

// errBroken is the plain error of a handler: a property of the moment.
var errBroken = errors.New("the handler broke")

// serving is a tool server: its tool publishes messages.
type serving struct {
	*process
	box   *outbox.Outbox
	store *txidem.Store
	runs  int // of handlers
}

// serve makes the calls of the assignment, one after the other, and tells each answer.
func (p *process) serve(ctx context.Context) (err error) {
	s := &serving{process: p}
	if s.box, err = outbox.New(p.pool, nil, destinationsOf(nil)...); err != nil {
		return err
	}
	if s.store, err = txidem.New(p.pool, nil); err != nil {
		return err
	}
	for _, i := range p.a.Calls {
		if err := s.insist(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// insist makes a call until it has an answer, as agents do, and tells it.
func (s *serving) insist(ctx context.Context, i intent) error {
	broken := 0
	for until := time.Now().Add(lives.Patience); ; {
		said, a, err := s.call(ctx, i, &broken)
		switch failure := (*toolcall.Failure)(nil); {
		case err == nil:
			return s.tell(a, said)
		case errors.As(err, &failure):
			said.Run, said.Failed = "", true
			return s.tell(a, said)
		case i.Way == plainTx && !errors.Is(err, errBroken): // it may have committed: to do it again would be to do it twice
			said.Run = ""
			return s.tell(a, said)
		case time.Now().After(until):
			said.Error = err.Error()
			return s.tell(a, said)
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}

// call makes a call once. Those of the way plainTx are none of the library's.
func (s *serving) call(ctx context.Context, i intent, broken *int) (said answer, a *attempt, err error) {
	said.Intent = i.N
	handle := func(ctx context.Context, tx pgx.Tx) (string, error) {
		s.runs++
		r := &handler{serving: s, intent: i, run: fmt.Sprintf("%d.%d", s.a.Life, s.runs), at: a}
		if *broken++; *broken <= i.Breaks {
			r.breaks = true
		}
		return r.run, r.handle(ctx, tx)
	}
	if i.Way == plainTx {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
			said.Run, err = handle(ctx, tx)
			return err
		})
		return said, nil, err
	}
	a = s.reaper.calling(i.N)
	result, err := txidem.Run(ctx, s.store, txidem.Request{
		Scope: scope, Tool: "notify", Key: i.key(), Args: []byte("{}"), Policy: &txidem.Policy{IdleInTx: idleInTx, Retention: keep, Attempts: 20},
	}, handle)
	said.Run, said.Replayed = result.Value, result.Replayed
	return said, a, err
}

// tell writes the line of an answer, if the server lives to do so. Only an answer to its own COMMIT is worth dying for: the
// messages are there and nobody knows.
func (s *serving) tell(a *attempt, said answer) error {
	if a != nil && !said.Replayed && !said.Failed && said.Error == "" && s.reaper.recorded(a) {
		s.reaper.at(a, publishedUntold, func(t *trace) { t.Returned = true })
	}
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(append(line, '\n'))
	return err
}
