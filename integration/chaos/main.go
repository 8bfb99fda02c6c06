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
