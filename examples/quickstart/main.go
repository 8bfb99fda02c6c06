// Quickstart shows what txonce is for: an agent calls the write tools of an MCP server over a network that loses
// answers, repeats its calls in every way agents do, and the database has each effect once.
//
//	go run ./examples/quickstart                 the demo, protected
//	go run ./examples/quickstart -unprotected    the same traffic on the same tools without txonce
//	go run ./examples/quickstart -serve http     the billing server alone, for a client of your own (or: -serve stdio)
//
// The part to copy is in billing.go (the tools), statement.go (one that is slow), notice.go (a message that leaves the database)
// and server.go (the wiring). Everything else is there to make trouble and to count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/txonce/txonce/internal/devpg"
)

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, o, os.Stdout, os.Stderr))
}

// options are the program's flags.
type options struct {
	unprotected bool
	seed        uint64
	serve       string // "http", "stdio", or nothing for the demo
	address     string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.unprotected, "unprotected", false, "register the same tools without txonce")
	flags.Uint64Var(&o.seed, "seed", 0, "repeat the traffic of an earlier demo; 0 draws a new seed")
	flags.StringVar(&o.serve, "serve", "", "run the server alone: http or stdio")
	flags.StringVar(&o.address, "address", "127.0.0.1:8080", "where -serve http listens")
	err := flags.Parse(args)
	switch {
	case err != nil:
		return o, err
	case flags.NArg() > 0:
		err = fmt.Errorf("quickstart: unexpected argument %q", flags.Arg(0))
	case o.serve != "" && o.serve != "http" && o.serve != "stdio":
		err = fmt.Errorf("quickstart: -serve is %q; use http or stdio", o.serve)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
	}
	if o.seed == 0 {
		o.seed = 1 + rand.Uint64N(9999)
	}
	return o, err
}

// The exit statuses.
const (
	exitGood        = 0
	exitBad         = 1
	exitInterrupted = 130
)

// run is the program. It returns the exit status.
func run(ctx context.Context, o options, stdout, stderr io.Writer) int {
	good, err := withServer(ctx, o, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "\nquickstart: interrupted")
		return exitInterrupted
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "quickstart: %v\n", err)
		return exitBad
	case !good:
		return exitBad
	}
	return exitGood
}

// withServer finds or starts a database server and does what was asked for.
func withServer(ctx context.Context, o options, stdout, stderr io.Writer) (good bool, err error) {
	pg, err := devpg.Start(ctx, &devpg.Config{Logger: slog.New(slog.NewTextHandler(stderr, nil))}) // it logs downloads
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	if o.serve != "" {
		return true, serve(ctx, o, pg, stderr)
	}
	return demonstrate(ctx, o, pg, stdout, stderr)
}
