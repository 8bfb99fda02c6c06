// Command withpg runs a command with a Postgres at hand.
//
//	withpg [flags] [--] [command [argument ...]]
//
// It finds or starts a Postgres as package devpg does, prints one line to
// standard error that says which, and runs the command with
// TXONCE_TEST_DATABASE_URL and DATABASE_URL set to its URL. Its exit status is that of the
// command (128 plus the signal's number if a signal ended it), 127 if the
// command cannot be run, 1 if there is no Postgres, 2 for wrong flags. Without
// a command it only prints the line. The server that it started is gone when it
// returns, and also when it is killed.
//
// Interrupted by a signal, it passes it on and waits for the command to end.
// Note that `go run` hides exit statuses: it prints them and returns 1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/txonce/txonce/internal/devpg"
)

const (
	statusFailed   = 1
	statusUsage    = 2
	statusNotFound = 127
	statusSignal   = 128 // plus the number of the signal
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run does the work of the command and returns its exit status.
func run(args []string, stderr io.Writer) int {
	cfg, command, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return statusUsage // the flag package has said why
	}
	sigs := catchSignals()
	defer sigs.release()

	srv, sig, err := start(cfg, sigs)
	if err != nil {
		fmt.Fprintln(stderr, err)
		if sig != nil {
			return statusSignal + number(sig)
		}
		return statusFailed
	}
	fmt.Fprintf(stderr, "Postgres %s: %s\n", srv.Version(), srv.Source())
	status := 0
	if len(command) > 0 {
		status = runCommand(command, srv.URL(), sigs, stderr)
	}
	if err := srv.Stop(); err != nil {
		fmt.Fprintln(stderr, err)
		if status == 0 {
			status = statusFailed
		}
	}
	return status
}

func parse(args []string, stderr io.Writer) (*devpg.Config, []string, error) {
	cfg := &devpg.Config{Parameters: devpg.ForTests()}
	fs := flag.NewFlagSet("withpg", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: withpg [flags] [--] [command [argument ...]]")
		fs.PrintDefaults()
	}
	fs.BoolVar(&cfg.Durable, "durable", false, "keep fsync, synchronous_commit and full_page_writes on")
	fs.BoolVar(&cfg.ListenTCP, "tcp", false, "listen on a port of 127.0.0.1 instead of a socket only")
	fs.Func("param", "server `setting` as name=value, for a server that is started; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want name=value")
		}
		cfg.Parameters[name] = value
		return nil
	})
	verbose := fs.Bool("v", false, "say more on standard error")
	if err := fs.Parse(args); err != nil {
		return nil, nil, err
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return cfg, fs.Args(), nil
}
