package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/txidem"
)

// Times of the tool's policy that are generous, for the machine may be busy and the run may be long: a server that was killed
// is noticed at once, and no record is to expire before it was compared.
const (
	idleInTx = 20 * time.Second
	keep     = 30 * 24 * time.Hour
)

// serving is a tool server: its tool submits jobs.
type serving struct {
	*process
	runner *jobs.Runner
	jobs   *jobs.Definition[task, receipt]
	store  *txidem.Store
}

// serve makes the calls of the assignment, one after the other, and tells each answer.
func (p *process) serve(ctx context.Context) (err error) {
	s := &serving{process: p, jobs: define(nil)}
	if s.runner, err = jobs.New(p.pool, runnerConfig(), s.jobs); err != nil {
		return err
	}
	if s.store, err = txidem.New(p.pool, nil); err != nil {
		return err
	}
	for _, c := range p.a.Calls {
		if err := s.insist(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// insist makes a call until it has an answer, as agents do, and tells it.
func (s *serving) insist(ctx context.Context, c call) error {
	tick := time.NewTicker(lives.LookAgain)
	defer tick.Stop()
	for until := time.Now().Add(lives.Patience); ; <-tick.C {
		a := s.reaper.calling(c.Task.Intent)
		result, err := txidem.Run(ctx, s.store, txidem.Request{
			Scope: jobScope, Tool: "start", Key: c.Key, Args: []byte("{}"),
			Policy: &txidem.Policy{IdleInTx: idleInTx, Retention: keep},
		}, func(ctx context.Context, tx pgx.Tx) (jobs.Handle, error) { return s.submit(ctx, tx, c, a) })
		said := answer{Intent: c.Task.Intent, Job: result.Value.JobID, Call: result.ID.String(), Replayed: result.Replayed}
		if err != nil {
			said.Job, said.Error = "", err.Error()
		}
		if err == nil || time.Now().After(until) {
			return s.tell(a, said)
		}
	}
}

// submit is the handler of the tool.
func (s *serving) submit(ctx context.Context, tx pgx.Tx, c call, a *attempt) (jobs.Handle, error) {
	h, err := s.jobs.SubmitTx(ctx, tx, s.runner, c.Task, &jobs.SubmitOpts{MaxAttempts: c.Most})
	if err != nil {
		return h, err
	}
	if s.a.Plant == answerBeforeCommit {
		if err := s.write(answer{Intent: c.Task.Intent, Job: h.JobID}); err != nil {
			return h, err
		}
	}
	s.reaper.at(a, submitQueued, func(t *trace) { t.Submitted = true })
	return h, nil
}

// tell writes the line of an answer, if the server lives to do so. Only an answer to its own COMMIT is worth dying for: the job
// is there and nobody knows.
func (s *serving) tell(a *attempt, said answer) error {
	if !said.Replayed && said.Error == "" && s.reaper.recorded(a) {
		s.reaper.at(a, submittedUntold, func(t *trace) { t.Returned = true })
	}
	return s.write(said)
}

func (s *serving) write(said answer) error {
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	_, err = s.stdout.Write(append(line, '\n'))
	return err
}
