// Reports shows what package jobs is for: a tool whose work takes 20 seconds answers at once, and the report comes out once,
// whichever process dies meanwhile.
//
//	go run .                     an agent, a server, two workers and River UI, on a throwaway Postgres or on DATABASE_URL
//	go run . server|worker|ui    one of them, on DATABASE_URL
//
// The part to copy is in report.go (the job), tools.go (the tools), server.go and worker.go (the processes). Everything else is
// there to make trouble, to look at and to count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(exitGood)
	case err != nil:
		os.Exit(exitUsage)
	}
	if o.leash { // the parent got the Ctrl-C too, and decides
		signal.Ignore(os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals(o)...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(run(ctx, o, os.Stdin, os.Stdout, os.Stderr))
}

func signals(o options) []os.Signal {
	if o.leash {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

// The exit statuses.
const (
	exitGood        = 0
	exitBad         = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// run is the program. It returns the exit status.
func run(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) int {
	if o.role == roleAll {
		return runAll(ctx, o, stdout, stderr)
	}
	if o.leash {
		ctx = leashed(ctx, stdin)
	}
	if err := play(ctx, o, stdout, newLog(o, stderr)); err != nil {
		_, _ = fmt.Fprintf(stderr, "reports: %s: %v\n", o.role, err)
		return exitBad
	}
	return exitGood
}

// play is one process of the service. It ends well when ctx does.
func play(ctx context.Context, o options, stdout io.Writer, log *slog.Logger) error {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return errors.New("DATABASE_URL is not set; set it to the database that server and workers share, or run without a role")
	}
	db, err := openDatabase(ctx, url, schemasNamed(o.schema))
	if err != nil {
		return err
	}
	defer db.Close()
	ready := func(address string) { _, _ = fmt.Fprintln(stdout, readyWord, address) }
	switch o.role {
	case roleServer:
		return serveTools(ctx, o, db, log, ready)
	case roleWorker:
		return work(ctx, o, db, log, ready)
	default:
		return serveUI(ctx, o, db, log, ready)
	}
}

func newLog(o options, stderr io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}
