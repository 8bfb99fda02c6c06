package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Descriptors of a worker, beside the usual ones.
const (
	marksFile = 3 // the mark goes here
	aliveFile = 4 // held open, so that its other end knows when all workers are gone
)

// exitOrphaned is the exit status of a worker whose parent is gone.
const exitOrphaned = 3

// scope is the one caller of all calls.
const scope = "crash"

// work is the main function of a worker: it makes the calls of its assignment, one after the other, and tells each
// answer.
func work(stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewReader(stdin)
	var a assignment
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "no assignment:", err)
		return exitBad
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the parent does
		os.Exit(exitOrphaned)
	}()
	w := &worker{a: a, reaper: newReaper(a.Death, os.NewFile(marksFile, "marks")), stdout: stdout}
	if err := w.live(context.Background()); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitBad
	}
	return exitGood
}

type worker struct {
	a      assignment
	reaper *reaper
	stdout io.Writer
	pool   *pgxpool.Pool
	store  *txidem.Store
}

func (w *worker) live(ctx context.Context) error {
	cfg, err := w.a.Place.config()
	if err != nil {
		return err
	}
	cfg.MaxConns = 3 // of which a plant needs two
	cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	cfg.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &wire{Conn: conn, reaper: w.reaper}, nil
	}
	if w.a.Exec {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if w.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	defer w.pool.Close()
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

// Times of the policy that are generous, for the machine may be busy and the run may be long: a client that was killed is
// noticed at once, and no record is to expire before it was compared.
const (
	idleInTx = 20 * time.Second
	keep     = 30 * 24 * time.Hour
)

// attempts is how often a handler may run when Postgres asks for it: calls that fight for one counter need a few.
const attempts = 20

func (w *worker) call(ctx context.Context, number int, c call) error {
	w.reaper.begin(number, c.Intent)
	h := &handler{worker: w, number: number, call: c}
	key := c.Key
	if w.a.Plant == keyPerAttempt {
		key = fmt.Sprintf("%s-%d-%d", key, w.a.Life, number)
	}
	result, err := txidem.Run(ctx, w.store, txidem.Request{
		Scope: scope, Tool: "pay", Key: key, Args: c.Args,
		Policy: &txidem.Policy{
			Wait: c.Wait, IdleInTx: idleInTx, Isolation: c.Isolation, Attempts: attempts, Window: keep, Retention: keep,
		},
	}, h.run)
	said := answer{
		Intent: c.Intent, Call: number, Class: classOf(err), Raw: result.Raw, Replayed: result.Replayed,
		ID: result.ID.String(), Claims: w.reaper.claims(),
	}
	if err != nil {
		said.Error = err.Error()
	}
	return w.tell(said)
}

func (w *worker) tell(said answer) error {
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	return w.reaper.tell(w.stdout, append(line, '\n'), said.Class.final() && !said.Replayed)
}

// classOf says what an error of Run means to the caller.
func classOf(err error) class {
	var failure *toolcall.Failure
	var pgErr *pgconn.PgError
	switch {
	case err == nil:
		return done
	case errors.As(err, &failure):
		return failed
	case errors.Is(err, errBroken):
		return released
	case errors.Is(err, txidem.ErrInProgress):
		return inProgress
	case errors.Is(err, txidem.ErrKeyReused):
		return reused
	case errors.Is(err, txidem.ErrOutcomeUnknown):
		return unknown
	case errors.As(err, &pgErr) && (pgErr.Code == "40001" || pgErr.Code == "40P01"):
		return conflict
	}
	return other
}
