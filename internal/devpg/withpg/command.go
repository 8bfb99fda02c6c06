package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/txonce/txonce/internal/devpg"
)

// start starts the Postgres. A signal gives it up, and is returned.
func start(cfg *devpg.Config, sigs *signals) (*devpg.Server, os.Signal, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	type result struct {
		srv *devpg.Server
		err error
	}
	done := make(chan result, 1)
	go func() {
		srv, err := devpg.Start(ctx, cfg)
		done <- result{srv, err}
	}()
	var got os.Signal
	for {
		select {
		case got = <-sigs.c:
			cancel(fmt.Errorf("got signal: %s", got))
		case r := <-done:
			if r.err == nil && got != nil { // it came too late to stop the start
				r.err = errors.Join(context.Cause(ctx), r.srv.Stop())
			}
			return r.srv, got, r.err
		}
	}
}

// runCommand runs the command to its end and returns the status to exit with.
func runCommand(command []string, url string, sigs *signals, stderr io.Writer) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), devpg.EnvTestURL+"="+url, devpg.EnvURL+"="+url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "withpg: cannot run the command:", err)
		return statusNotFound
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-sigs.c:
			if !sentToGroup(sig) {
				_ = cmd.Process.Signal(sig) // it fails if the command has just ended
			}
		case err := <-done:
			return statusOf(cmd.ProcessState, err, stderr)
		}
	}
}

func statusOf(state *os.ProcessState, err error, stderr io.Writer) int {
	if state == nil {
		fmt.Fprintln(stderr, "withpg: waiting for the command:", err)
		return statusFailed
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return statusSignal + int(ws.Signal())
	}
	return state.ExitCode()
}
