package failover

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/txonce/txonce/jobs"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// watcher asks for the status of calls that were answered, over and over.
type watcher struct {
	*load
	what   string
	store  *txidem.Store
	runner *jobs.Runner

	knew, unsure atomic.Int64 // how often Status told, and how often that it cannot be known now
}

// watch starts one, which ends with the load.
func (l *load) watch(what string, store *txidem.Store, runner *jobs.Runner) *watcher {
	w := &watcher{load: l, what: what, store: store, runner: runner}
	l.all.Go(func() {
		for {
			select {
			case <-l.enough:
				return
			case <-l.t.Context().Done():
				return
			case <-time.After(shortest):
				if in, answer, ok := l.heard.any(); ok {
					w.ask(in, answer)
				}
			}
		}
	})
	return w
}

// ask may be told of the answer, or that nobody can tell; never of another one, nor that there is none.
func (w *watcher) ask(in intent, answer []byte) {
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	status, err := w.store.Status(ctx, request(in))
	if w.note(in, answer, status, err) {
		w.knew.Add(1)
	} else {
		w.unsure.Add(1)
	}
	if some, err := w.store.Statuses(ctx, []toolcall.Ask{{Scope: scope, ID: idOf(in)}}); err != nil {
		w.note(in, answer, toolcall.Status{}, err)
	} else {
		w.note(in, answer, some[0], nil)
	}
	if in.tool == toolJob {
		id, err := toolcall.ParseID(decode(w.t, answer).Job)
		if err != nil {
			w.t.Errorf("%v: its job: %v", in, err)
			return
		}
		w.askJob(ctx, in, id)
	}
}

// note reports whether the watcher was told.
func (w *watcher) note(in intent, answer []byte, status toolcall.Status, err error) bool {
	switch {
	case err == nil && status.State == toolcall.StateSucceeded && bytes.Equal(status.Answer, answer):
		return true
	case errors.Is(err, txidem.ErrUnavailable), errors.Is(err, txidem.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded), w.t.Context().Err() != nil:
	default:
		w.t.Errorf("%s, asked of %v, which was answered by %s: %+v, %v", w.what, in, answer, status, err)
	}
	return false
}

// askJob likewise: a job that was submitted is never unheard of.
func (w *watcher) askJob(ctx context.Context, in intent, id toolcall.ID) {
	switch status, err := w.runner.Status(ctx, scope, id); {
	case err == nil && (status.State == toolcall.StateQueued || status.State == toolcall.StateRunning || status.State == toolcall.StateSucceeded):
	case errors.Is(err, jobs.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), w.t.Context().Err() != nil:
	default:
		w.t.Errorf("%s, asked of the job of %v: %+v, %v", w.what, in, status, err)
	}
}
