// Crashoutbox kills processes that publish and deliver messages, and counts what arrives.
//
//	go run ./integration/crashoutbox -n 200
//
// Tool servers publish messages in protected calls and in transactions of their own, relays deliver them over HTTP to a receiver
// in the parent; all but that are this program once more. Each is told at which step to die, and does so by SIGKILL:
//
//	publish    of a server: before the COMMIT of the call is written
//	published  of a server: when it is written, or has been answered, and the caller has heard nothing
//	idle       of a relay: it delivers nothing and is about to look for messages
//	claimed    when its look is written, or has claimed messages, before an attempt begins
//	before     when the attempt has begun, before the receiver is asked for anything
//	after      when the receiver has been sent the message, or has answered, before the result is written
//	settling   when a part of the result is written, or all of it, without reading the answer
//
// The receiver takes a message, refuses it (500, 503 with Retry-After, 429 for all messages), takes it and cuts the connection
// or answers too late, or takes it only when the lease of that attempt is over. Handlers count a message of an ordering key
// before or behind publishing it, with pauses, so that transactions commit in another order than they began; some break and are
// repeated, some fail for good, and calls are made again. Some relays are stopped (SIGSTOP) in the middle of an attempt until
// another one has the message, and go on then. The server ends sessions meanwhile.
//
// The survivors finish the work. What the receiver wrote down is compared with a ledger that the handlers wrote in the same
// transactions, where a counter of each ordering key, under a lock of its row, has the order of commits:
//
//   - each message that committed must arrive, and none else (O01); it must be said to be delivered, and not before the receiver
//     said so; no two attempts of it are under way at a time (O03);
//   - a message of an ordering key must not arrive before the one in front of it was taken and answered (O02);
//   - all deliveries of a message must have the same id, key, headers and body, and no two messages may share a key (O01).
//
// The last line of the output has the figures: messages of the ledger, deliveries that the receiver saw, distinct messages in them;
// lost are messages of the ledger that the receiver never took. The exit status is 1 when one of the last three is not 0, when a
// step has too few of the kills, and when anything else is not as it should be: each such thing has a line that begins with an
// exclamation mark. The line before it has the kills, and how long it took from the kill of a relay until a message that it had was
// sent again, or was seen with another that was killed: its lease is
// Destination.Timeout and ten seconds, and takes twice as long where the next relay died before it was seen with the message.
//
// With -plant the processes do something wrong on purpose, and the run must fail. The first of these mistakes is a relay that
// deletes a message before it delivers it.
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
	kills int
	seed  uint64
	plant plant
	stuck time.Duration
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
	flags := flag.NewFlagSet("crashoutbox", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.kills, "n", 60, "how many processes to kill")
	flags.Uint64Var(&o.seed, "seed", 0, "draw as an earlier run did, as far as timing allows; 0 draws a new seed")
	flags.StringVar(&planted, "plant", "", "do something wrong, which must be found: "+lives.PlantNames(plants())+"; 1 is the first of them")
	flags.DurationVar(&o.stuck, "stuck", time.Minute, "how long behind the kills a message that has not ended is given up")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	err := o.set(planted)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		err = fmt.Errorf("crash-outbox: %w", err)
		_, _ = fmt.Fprintln(stderr, err)
	}
	return o, err
}

func (o *options) set(planted string) (err error) {
	switch {
	case o.kills < len(steps()):
		return fmt.Errorf("-n is %d; use %d, one for each step, or more", o.kills, len(steps()))
	case o.stuck <= 0:
		return fmt.Errorf("-stuck is %v; use a time such as 1m", o.stuck)
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
	return lives.Run(ctx, "crash-outbox", o.seed, stdout, stderr, func(p lives.Place) (lives.Report, error) {
		return torture(ctx, o, p, stderr)
	})
}
