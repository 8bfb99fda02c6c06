// Crashjobs kills processes in the middle of jobs and counts what is left in the database.
//
//	go run ./integration/crashjobs -n 400
//
// Tool servers submit jobs inside protected calls, workers work them; all of them are this program once more. Each is told at
// which step to die, and does so by SIGKILL:
//
//	submit     before the COMMIT of the call is written
//	submitted  when it is written, or has been answered, and the caller has heard nothing
//	begin      when River has given the doorbell to the worker, before the attempt begins, or as it does
//	compute    in the compute half
//	commit     in the commit half, which holds the job's row, before the effect or in the statement with it
//	effect     when the effect is there, before COMMIT is written
//	committed  when COMMIT is written, within 0-2 ms and without reading the answer, or when it is read and River has not
//	           heard; some of these batches are so slow that the server notices the death before it comes to COMMIT
//
// Some jobs kill each worker that tries: they must end as failed. Some workers are stopped first (SIGSTOP), until another
// attempt has their job or, where they hold the job's row, for longer than a lease, and go on then. Meanwhile doorbells are
// rescued from workers that live, rung again when their job has ended, doubled, deleted, and cancelled, the last of
// jobs that are marked for it; and the server ends sessions. Leases are short: 1 s, looked for every 200 ms.
//
// The survivors finish the work. In the end each call is made once more, every doorbell rings once more and a new one for
// each job, and what the database says must not change by that. Each intent must have one job, however often its call was
// made; each job that succeeded one effect, of the attempt that its result names, and any other job none (J02, J06, J07). A job
// that was told to be cancelled must be so, and no record of a call may be kept for ever (J01).
//
// Last, it is measured how soon a job goes on whose worker is killed in the compute half, with a lease and a sweep of the
// default length (J04).
//
// The last line of the output has the figures: attempts that began are executions; duplicates are intents with more than
// one effect, or with one of a job that did not succeed; lost are answers with a job that is not there, and jobs that succeeded without
// effect; stuck are jobs that had not ended a minute after the last kill. The exit status is 1 when one of the last three is not
// 0, when a step has too few of the kills, when a job went on too late, and when anything else is not as it should be: each
// such thing has a line that begins with an exclamation mark.
//
// With -plant the processes do something wrong on purpose, and the run must fail. The first of these mistakes is a plain River
// worker that relies on river.JobCompleteTx.
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
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

func main() {
	if os.Getenv(processEnv) != "" {
		os.Exit(live(os.Stdin, os.Stdout, os.Stderr))
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
	recoveries int
	stuck      time.Duration
}

// share is how many kills processes of the role are to have: the same number at each step.
func (o options) share(r role) int {
	ofServers := o.kills * len(stepsOf(server)) / len(steps())
	if r == server {
		return ofServers
	}
	return o.kills - ofServers
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var planted string
	flags := flag.NewFlagSet("crashjobs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.kills, "n", 200, "how many processes to kill")
	flags.Uint64Var(&o.seed, "seed", 0, "draw as an earlier run did, as far as timing allows; 0 draws a new seed")
	flags.StringVar(&planted, "plant", "", "do something wrong, which must be found: "+lives.PlantNames(plants())+"; 1 is the first of them")
	flags.IntVar(&o.recoveries, "recoveries", 24, "for at least how many jobs to measure how soon they go on; 0 measures nothing")
	flags.DurationVar(&o.stuck, "stuck", time.Minute, "how long after the last kill a job that has not ended counts as stuck")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.set(planted)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		err = fmt.Errorf("crash-jobs: %w", err)
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *options) set(planted string) (err error) {
	switch {
	case o.kills < len(steps()):
		return fmt.Errorf("-n is %d; use %d, one for each step, or more", o.kills, len(steps()))
	case o.recoveries < 0:
		return fmt.Errorf("-recoveries is %d; use 0 or more", o.recoveries)
	case o.stuck <= 0:
		return fmt.Errorf("-stuck is %v; use a time such as 1m", o.stuck)
	}
	if o.plant, err = lives.ParsePlant(planted, plants()); err != nil {
		return err
	}
	if o.plant != noPlant {
		o.recoveries = 0
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(9999)
	}
	return nil
}

// run is the program. It returns the exit status.
func run(ctx context.Context, o options, stdout, stderr io.Writer) int {
	return lives.Run(ctx, "crash-jobs", o.seed, stdout, stderr, func(p lives.Place) (lives.Report, error) {
		return torture(ctx, o, p, stderr)
	})
}
