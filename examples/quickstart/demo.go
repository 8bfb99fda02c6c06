package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/devpg"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// demonstrate runs the whole demo on a database server and writes what it found. It uses schemas of its own, which it
// removes at the end.
func demonstrate(ctx context.Context, o options, pg *devpg.Server, stdout, stderr io.Writer) (good bool, err error) {
	heading(stdout, o, pg)
	name := fmt.Sprintf("txonce_demo_%08x", rand.Uint32())
	db, err := openDatabase(ctx, pg.URL(), schemas{app: name, txonce: name + "_records"})
	if err != nil {
		return false, err
	}
	defer db.Close()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := db.drop(ctx); err != nil {
			_, _ = fmt.Fprintf(stderr, "quickstart: the schemas %s and %s are left in the database: %v\n", db.schemas.app, db.schemas.txonce, err)
		}
	}()
	s := &show{options: o, db: db, journal: newJournal(), progress: newProgress(stderr)}
	r, err := s.perform(ctx)
	if err != nil {
		return false, err
	}
	r.write(stdout)
	return len(r.problems()) == 0, nil
}

func heading(w io.Writer, o options, pg *devpg.Server) {
	title, tools, flag := "An agent retries, the database has one effect.", "protected by txonce", ""
	if o.unprotected {
		title, tools, flag = "An agent retries, and nothing protects the database.", "NOT protected", " UNPROTECTED=1"
	}
	const text = `%s

  An MCP server whose tools are %s, a network that loses answers, an agent that repeats its calls.
  PostgreSQL %s: %s.
  Seed %d. To repeat the intents and the planned faults: make demo SEED=%d%s

`
	_, _ = fmt.Fprintf(w, text, title, tools, pg.Version(), pg.Source(), o.seed, o.seed, flag)
}

// show is one run of the demo.
type show struct {
	options  options
	db       *database
	journal  *journal
	progress *progress
}

// perform puts server, network and agent together, lets the agent work, and counts.
func (s *show) perform(ctx context.Context) (_ *report, err error) {
	intents := newPlan(s.options.seed)
	if err := s.db.arrange(ctx, intents); err != nil {
		return nil, err
	}
	merchant, err := openMerchant(ctx, s.options.seed)
	if err != nil {
		return nil, err
	}
	defer merchant.close()
	shop, err := openShop(ctx, s.options, s.db, merchant, mcpidem.ScopeFromToken, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shop.close(ctx)) }()
	shop.server.AddReceivingMiddleware(s.journal.watch)
	work, err := s.traffic(ctx, shop.server, intents)
	if err != nil {
		return nil, err
	}
	if work.jobs, err = s.awaitRest(ctx, shop); err != nil {
		return nil, err
	}
	rows, err := s.db.effects(ctx)
	if err != nil {
		return nil, err
	}
	return newReport(s.options, s.journal.sorted(), work, rows, merchant.noticesOf(refundsOf(work.errands, rows))), nil
}

// traffic makes all calls. When it returns, none runs any more.
func (s *show) traffic(ctx context.Context, server *mcp.Server, intents []*intent) (*work, error) {
	back, err := listen(ctx, loopback, "/mcp", newHandler(server, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	defer back.close()
	lossy := newNetwork(s.options.seed, back.url, s.journal)
	defer lossy.client.CloseIdleConnections()
	front, err := listen(ctx, loopback, "/mcp", lossy)
	if err != nil {
		return nil, err
	}
	defer front.close()
	a := newAgent(front.url, fmt.Sprintf("run-%d", s.options.seed), s.journal, s.db.rowsOf)
	defer a.close()
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	w, err := a.workOn(ctx, intents, s.progress)
	if err == nil && !s.options.unprotected {
		w.reused, err = a.reuseKey(ctx, w.errands)
	}
	return w, err
}

// awaitRest waits for the jobs that nobody has asked for until they ended, and for the messages that are on their way. It returns
// how many jobs there were.
func (s *show) awaitRest(ctx context.Context, shop *shop) (int, error) {
	for {
		all, open, err := s.db.jobs(ctx, shop.jobs)
		if err != nil {
			return all, err
		}
		unsent, err := s.db.unsent(ctx, shop.unsent)
		if err != nil || open+unsent == 0 {
			return all, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(breath):
		}
	}
}

const loopback = "127.0.0.1:0"
