// Chaos runs everything together under random kills, and judges what agents were told as a history.
//
//	go run ./integration/chaos -time 5m
//
// Two tool servers, three workers and two relays run, all of which are this program once more, and ten agents in the parent call the
// servers' tools over MCP. Each process is killed by SIGKILL at random moments and started again; some are stopped (SIGSTOP) for
// seconds and go on, as a machine does that was paused, and some are told to leave in good order and replaced, as a deployment does. The database is killed as well, with all of its processes, started again
// on its data, and killed anew some time after it was back, once a call was answered.
//
// An intent is one tool, one idempotency key and some arguments. The tools are
//
//	write   an effect, in a protected call (Run)
//	batch   an effect, in a call of one round trip (RunBatch)
//	report  a job (SubmitTx), whose effect commits in a worker; agents wait for some by get_status
//	notify  an effect and one or two messages, some with an ordering key, which relays post to a receiver in the parent, which
//	        takes them, answers 500, or takes them and cuts the connection, for a while each
//
// Some calls end as a recorded failure, in some attempts the handler returns a plain error, and some jobs break behind their effect.
// Agents give up early, repeat what is open and what has ended, work on one intent at a time, send other arguments under a key
// that is used, and ask get_status. Each call has a number, which does not count when calls are compared: an answer and an effect say which call
// did it.
//
// When the time is over nobody is killed any more, the agents call until each intent has an answer, jobs and messages end, and
// the judge looks at
//
//   - the history: each call and question with its beginning, its end and what came back. A checker of linearizability looks for an
//     order that explains all answers of an intent (R19); model.go says what is promised. No record expires in a run: "its answer until it
//     expires" is for the tests of txidem;
//   - the effects, which no constraint keeps from being there twice: one for each intent that was said to be done, by the call and the run
//     of the handler that its answer names, and none for others (R02); and the jobs, of which each must have ended, once (J09);
//   - the messages: each that committed must arrive, and none else, under one id and key, behind the one in front of it in the order of
//     commits (O01, O02);
//   - get_status of each intent and each job, which must say the same (S02).
//
// The last line of the output has the figures. The exit status is 1 when one of the last five is not 0, when there were fewer kills
// of a kind than 10 (in a run shorter than three minutes: its part of them), when in a run of three minutes or more the agents made
// fewer than 50 calls a second (with a -rate below 75: than two thirds of it) or no server said anything of more than three quarters
// of them (in a shorter run: of any), and when anything else is not as it should be: each such thing has a line that begins with an exclamation mark. A run
// that has too few kills when its time is over, or in which no server has said anything, goes on until it has enough, for that time
// once more or for two minutes, whichever is longer, and then only what was killed too rarely is killed; so does one of three minutes or more in
// which no process of a role was stopped and went on, or none left in good order. What the checker cannot explain is
// drawn in a folder (-pictures). The line before the last one has the rate, the stops, those that left in good order, what the checker says, and the time from the
// kill of the database until a call was answered that was made behind it, the time in which it was left dead (a second at most)
// among it.
//
// With -plant the processes do something wrong on purpose, and the run must fail. The first of these mistakes is a server that runs
// one of the tools without protection.
//
// Its server is its own, for it is killed: the newest version at hand (package servers). It runs on Unix-like systems, for it needs
// SIGKILL.
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
	"path/filepath"
	"syscall"
	"time"

	"github.com/txonce/txonce/integration/internal/lives"
)

// program is what lines of output begin with.
const program = "chaos"

func main() {
	if os.Getenv(processEnv) != "" {
		os.Exit(live(os.Stdin, os.Stderr))
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(lives.ExitGood)
	case err != nil:
		os.Exit(lives.ExitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, o, os.Stdout, os.Stderr))
}

// options are the program's flags.
type options struct {
	time     time.Duration
	rate     float64
	seed     uint64
	plant    plant
	stuck    time.Duration
	pictures string
}

// leastKills is how many kills of each kind a run of wholeTime must have.
const (
	leastKills = 10
	wholeTime  = 3 * time.Minute
)

// least is how many kills of each kind the run must have.
func (o options) least() int {
	return max(1, min(leastKills, int(leastKills*o.time/wholeTime)))
}

// kills is how many kills there will be, about.
func (o options) kills() int {
	n := 0
	for _, every := range []time.Duration{killServers, killWorkers, killRelays, killDB} {
		n += int(o.time / min(every, o.time/leastTimes))
	}
	return n
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var planted string
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.time, "time", 5*time.Minute, "how long calls are made while processes and the database are killed")
	flags.Float64Var(&o.rate, "rate", 75, "how many calls a second the agents try to make")
	flags.Uint64Var(&o.seed, "seed", 0, "draw as an earlier run did, as far as timing allows; 0 draws a new seed")
	flags.StringVar(&planted, "plant", "", "do something wrong, which must be found: "+lives.PlantNames(plants())+"; 1 is the first of them")
	flags.DurationVar(&o.stuck, "stuck", 90*time.Second, "how long behind the kills something that has not ended is given up")
	flags.StringVar(&o.pictures, "pictures", filepath.Join(os.TempDir(), "txonce-chaos"), "the folder for pictures of answers that nothing explains")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.set(planted)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *options) set(planted string) (err error) {
	switch {
	case o.time < 5*time.Second:
		return fmt.Errorf("-time is %v; use 5s or more, so that everything is killed", o.time)
	case o.rate <= 0:
		return fmt.Errorf("-rate is %v; use a number of calls a second such as 70", o.rate)
	case o.stuck <= 0:
		return fmt.Errorf("-stuck is %v; use a time such as 90s", o.stuck)
	}
	if o.plant, err = lives.ParsePlant(planted, plants()); err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(9999)
	}
	return nil
}

// run is the program. It returns the exit status.
func run(ctx context.Context, o options, stdout, stderr io.Writer) int {
	r, err := onPostgres(ctx, o, stderr)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintf(stderr, "\n%s: interrupted: %v\n", program, err)
		return lives.ExitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return lives.ExitBad
	}
	r.Write(stdout, stderr)
	if !r.Good() {
		return lives.ExitBad
	}
	return lives.ExitGood
}

// onPostgres makes a run on a server of its own, for that is killed.
func onPostgres(ctx context.Context, o options, stderr io.Writer) (r *result, err error) {
	db, err := startPostgres(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Stop()) }()
	_, _ = fmt.Fprintf(stderr, "%s: seed %d, PostgreSQL %s: %s\n", program, o.seed, db.Version(), db.Source())
	return brew(ctx, o, db, stderr)
}
