// Crash kills processes in the middle of protected calls and counts what is left in the database.
//
//	go run ./integration/crash -n 1000
//
// Workers, which are this program once more, make the same calls beside each other, in each way to run. Each of them is
// told at which step of which call to die, and does so by SIGKILL:
//
//	claim      before turn 1 is written, before its answer is read, or as soon as the lock is held
//	handler    between two statements of the handler, or inside one
//	finish     before the last batch is written, or when a part of it is
//	commit     when all of it is written, within 0-2 ms and without reading the answer; some of these batches are so
//	           slow that the server notices the death before it comes to COMMIT
//	reply      when the call has returned, before the answer is told or half-way through telling it
//
// The kills are split evenly among the ways to run; with -mode, there is only one. Intents of run, tx and batch are shared:
// what one of them was killed at, any of them may repeat. Intents of leased are of their own.
//
//	run        txidem.Run, as above
//	tx         txidem.RunTx: finish is the turn with the record, and the time until the worker writes its own COMMIT, which
//	           is commit; what the worker writes itself must be there as often as the effects. Some workers ask Store.Resolve first
//	batch      txidem.RunBatch: the steps are bytes of its one turn. Nothing of it is written, or no more than the claim and a
//	           part of the record (claim); the record and a part of the effects (handler); all but COMMIT (finish); all (commit).
//	           The handler has returned before. Calls that went on as Run does are killed there as well
//	leased     txidem.RunLeased: claim is the committed claim; the effect is a charge by a connection of another pool, in a
//	           transaction of its own, and handler is when that is sent or done; finish and commit are the turn with the
//	           record. A slow commit is not rolled back but late: the lease may be another's by then
//
// The survivors finish the work. When a leased call was cut off, they ask whether the charge is there, or charge again
// under the same downstream key, or, where the other system knows no keys, hear that the call is blocked, for good. In
// the end every call is made once more and everything that was ever told is compared
// with the database, which must have each effect once (R02, I1), each answer always the same (I2), and no answer that is
// not true (I5). A blocked call has one effect at most, and an answer only where one is recorded.
//
// The last line of the output has the figures, and each way to run has such a line in front: the intents that it took
// part in, the effects that it made, and what it got wrong. The exit status is 1 when one of them is not what it should
// be, when a step has less than a tenth of the kills, or when anything is left: a lock, a session, a process.
//
// With -plant the workers do something wrong on purpose, and the run must fail, in each mode.
//
// It runs on Unix-like systems, for it needs SIGKILL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work(os.Stdin, os.Stdout, os.Stderr))
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		os.Exit(lives.ExitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, o, os.Stdout, os.Stderr))
}

// options are the program's flags.
type options struct {
	kills      int
	seed       uint64
	plant      plant
	modes      []mode
	isolations []pgx.TxIsoLevel
}

// share is how many kills the mode is to have.
func (o options) share(m mode) int {
	share := o.kills / len(o.modes)
	if slices.Index(o.modes, m) < o.kills%len(o.modes) {
		share++
	}
	return share
}

// modesOf returns the modes that are leased, or the others.
func (o options) modesOf(leased bool) []mode {
	return slices.DeleteFunc(slices.Clone(o.modes), func(m mode) bool { return m.leased() != leased })
}

func allIsolations() []pgx.TxIsoLevel {
	return []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var planted, isolation, modes string
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.kills, "n", 300, "how many workers to kill")
	flags.Uint64Var(&o.seed, "seed", 0, "draw as an earlier run did, as far as timing allows; 0 draws a new seed")
	flags.StringVar(&planted, "plant", "", "do something wrong, which must be found: "+lives.PlantNames(plants())+"; 1 is the first of them")
	flags.StringVar(&modes, "mode", "all", "the way to run: all, "+modeNames())
	flags.StringVar(&isolation, "isolation", "", "isolation level of all calls, such as \"serializable\" (default: all three, mixed)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.set(planted, isolation, modes)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		err = fmt.Errorf("crash: %w", err)
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *options) set(planted, isolation, modes string) (err error) {
	if o.kills < 1 {
		return fmt.Errorf("-n is %d; use 1 or more", o.kills)
	}
	if o.plant, err = lives.ParsePlant(planted, plants()); err != nil {
		return err
	}
	if o.modes, err = parseModes(modes); err != nil {
		return err
	}
	o.isolations = allIsolations()
	if isolation != "" {
		level := pgx.TxIsoLevel(strings.ToLower(isolation))
		if !slices.Contains(o.isolations, level) {
			return fmt.Errorf("-isolation is %q; use one of %q", isolation, o.isolations)
		}
		o.isolations = []pgx.TxIsoLevel{level}
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(9999)
	}
	return nil
}

// run is the program. It returns the exit status.
func run(ctx context.Context, o options, stdout, stderr io.Writer) int {
	return lives.Run(ctx, "crash", o.seed, stdout, stderr, func(p lives.Place) (lives.Report, error) {
		return torture(ctx, o, p, stderr)
	})
}
