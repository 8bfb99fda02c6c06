package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// scope is the one caller of all calls.
const scope = "crash"

// work is the main function of a worker: it makes the calls of its assignment, one after the other, and tells each
// answer.
func work(stdin io.Reader, stdout, stderr io.Writer) int {
	var a assignment
	if err := lives.Assigned(stdin, &a, func(string) {}); err != nil {
		_, _ = fmt.Fprintln(stderr, "no assignment:", err)
		return lives.ExitBad
	}
	w := &worker{a: a, reaper: newReaper(a.Death, lives.Marks()), stdout: stdout, stderr: stderr}
	if err := w.live(context.Background()); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return lives.ExitBad
	}
	return lives.ExitGood
}

type worker struct {
	a              assignment
	reaper         *reaper
	stdout, stderr io.Writer
	pool           *pgxpool.Pool
	provider       *pgxpool.Pool // the other system of leased calls
	store          *txidem.Store
}

func (w *worker) live(ctx context.Context) (err error) {
	if w.pool, err = w.connect(ctx); err != nil {
		return err
	}
	defer w.pool.Close()
	if w.provider, err = w.connect(ctx); err != nil {
		return err
	}
	defer w.provider.Close()
	if w.store, err = txidem.New(w.pool, nil); err != nil {
		return err
	}
	for number, c := range w.a.Calls {
		if err := w.call(ctx, number, c); err != nil {
			return err
		}
	}
	return nil
}

// connect returns a pool that connects when it is used.
func (w *worker) connect(ctx context.Context) (*pgxpool.Pool, error) {
	cfg, err := w.a.Place.Config()
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 3 // of which a plant needs two
	cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	cfg.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &wire{Conn: conn, reaper: w.reaper}, nil
	}
	if w.a.Exec {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// call makes a call, again and again if it is to insist, and tells its answer.
func (w *worker) call(ctx context.Context, number int, c call) error {
	h := &handler{worker: w, number: number, call: c}
	tick := time.NewTicker(lives.LookAgain)
	defer tick.Stop()
	for until := time.Now().Add(c.Wait); ; <-tick.C {
		w.reaper.begin(number, c.Intent, c.Mode)
		result, err := w.make(ctx, h)
		said := answer{
			Mode: c.Mode, Intent: c.Intent, Call: number, Class: classOf(err), Raw: result.Raw, Replayed: result.Replayed,
			ID: result.ID.String(), Runs: h.runs, Claims: w.reaper.claims(),
		}
		if err != nil {
			said.Error = err.Error()
		}
		if said.Class.decided() || !c.Insist || time.Now().After(until) {
			return w.tell(said)
		}
	}
}

// make makes the call in its mode, once.
func (w *worker) make(ctx context.Context, h *handler) (result, error) {
	switch h.call.Mode {
	case txMode:
		return h.inTx(ctx)
	case batchMode:
		return txidem.RunBatch(ctx, w.store, h.request(), h.queue)
	case leasedMode:
		return h.leased(ctx)
	}
	return txidem.Run(ctx, w.store, h.request(), h.run)
}

type result = txidem.Result[json.RawMessage]

func (w *worker) tell(said answer) error {
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return w.reaper.tell(w.stdout, append(line, '\n'), said.Class.final() && !said.Replayed)
}

// classOf says what an error of a call means to the caller.
func classOf(err error) class {
	var failure *toolcall.Failure
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return done
	case errors.As(err, &failure):
		return failed
	case errors.Is(err, txidem.ErrBlocked): // it may wrap what the handler returned, as the next one may
		return blocked
	case errors.Is(err, txidem.ErrOutcomeUnknown):
		return unknown
	case errors.Is(err, errBroken):
		return released
	case errors.Is(err, txidem.ErrInProgress):
		return inProgress
	case errors.Is(err, txidem.ErrKeyReused):
		return reused
	case errors.Is(err, txidem.ErrStaleSnapshot):
		return conflict
	case errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01"):
		return conflict
	}
	return other
}
