package statustool

import (
	"context"
	"log/slog"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// reader answers questions, at once or at the end of what is asked about.
type reader struct {
	asker   asker[finding]
	sources sources
	poller  *poller
	log     *slog.Logger
}

func newReader(given []toolcall.Source, every time.Duration, log *slog.Logger) *reader {
	s := inOrder(given)
	return &reader{asker: asker[finding]{look: s.ask, longest: longestLook, most: mostAsks}, sources: s, poller: newPoller(s, every), log: log}
}

// follow waits for at most wait until what is asked about is neither queued nor running, and returns what is known last. told
// hears each status in between; it may be nil. An error means that it is not known, or that ctx ended.
func (r *reader) follow(ctx context.Context, ask toolcall.Ask, wait time.Duration, told func(toolcall.Status)) (toolcall.Status, error) {
	var before []<-chan struct{}
	if wait > 0 {
		before = r.sources.changed()
	}
	over := time.NewTimer(wait) // what the first look takes is part of it
	defer over.Stop()
	known, err := r.asker.ask(ctx, ask)
	if err != nil {
		known.err = err
	}
	if wait <= 0 || settled(known) || ctx.Err() != nil {
		return r.known(ctx, ask, known)
	}
	w := r.poller.join(ask, known, before)
	defer r.poller.leave(w)
	for {
		if told != nil && known.err == nil {
			told(known.status)
		}
		select {
		case known = <-w.news:
			if settled(known) {
				return r.known(ctx, ask, known)
			}
		case <-over.C:
			return r.known(ctx, ask, known)
		case <-ctx.Done():
			return toolcall.Status{}, ctx.Err()
		}
	}
}

// settled reports whether waiting is of no use.
func settled(f finding) bool {
	if f.err != nil {
		return f.alone
	}
	return f.status.State != toolcall.StateQueued && f.status.State != toolcall.StateRunning
}

func (r *reader) known(ctx context.Context, ask toolcall.Ask, f finding) (toolcall.Status, error) {
	if f.err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "statustool: a status could not be read", "id", ask.ID, "scope", ask.Scope, "error", f.err)
	}
	return f.status, f.err
}
