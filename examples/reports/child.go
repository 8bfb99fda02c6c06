package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// readyWord begins the line with which a process says on stdout that it is ready, and where.
const readyWord = "ready"

// leashed returns a context that also ends when stdin does: whoever started this process is gone, or wants it to end. Should
// the process not manage to end well, it ends all the same.
func leashed(ctx context.Context, stdin io.Reader) context.Context {
	ctx, end := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		end()
		time.AfterFunc(leashTimeout, func() { os.Exit(exitBad) })
	}()
	return ctx
}

const leashTimeout = 10 * time.Second

// child is a process of the service. It is started again when it dies.
type child struct {
	name    string
	args    []string
	program string
	env     []string
	board   *board
	verbose io.Writer // where its log goes as it comes; nil keeps it for when the child dies of itself

	mu      sync.Mutex
	process *os.Process
	address string        // where it listens, if it does
	ready   bool          // and not dead yet
	changed chan struct{} // closed when ready or process changes; there is a new one then
	deaths  int
}

// maxStillborn is how often in a row a child may end before it is ready.
const maxStillborn = 5

// keep keeps the child alive until ctx ends, and ends it then. It returns an error if it cannot.
func (c *child) keep(ctx context.Context) error {
	for stillborn := 0; ; {
		began := time.Now()
		wasReady, last, err := c.live(ctx, began)
		switch {
		case ctx.Err() != nil:
			return nil
		case wasReady:
			stillborn = 0
		default:
			if stillborn++; stillborn == maxStillborn {
				return fmt.Errorf("%s does not start: %v\n%s", c.name, err, last)
			}
		}
		if !sleep(ctx, time.Duration(stillborn)*200*time.Millisecond) {
			return nil
		}
	}
}

// live is one life of the child. It returns whether it was ready, and the end of its log.
func (c *child) live(ctx context.Context, began time.Time) (wasReady bool, last string, err error) {
	cmd := exec.CommandContext(ctx, c.program, c.arguments()...)
	cmd.Env = c.env
	log := &tail{also: c.verbose, prefix: c.name}
	cmd.Stderr = log
	leash, err := cmd.StdinPipe()
	if err != nil {
		return false, "", err
	}
	cmd.Cancel = leash.Close // which ends it well
	cmd.WaitDelay = leashTimeout + 5*time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, "", err
	}
	if err := cmd.Start(); err != nil {
		return false, "", err
	}
	pid := cmd.Process.Pid
	c.set(cmd.Process, false)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if word, address, _ := strings.Cut(lines.Text(), " "); word == readyWord && !wasReady {
			wasReady = true
			c.born(cmd.Process, strings.TrimSpace(address), time.Since(began))
		}
	}
	err = cmd.Wait()
	c.set(nil, false)
	if ctx.Err() == nil {
		c.died(pid, cmd.ProcessState, log)
	}
	return wasReady, log.String(), err
}

// arguments keep the port that the child had before.
func (c *child) arguments() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := append([]string(nil), c.args...)
	if at, err := url.Parse(c.address); err == nil && at.Host != "" {
		_, port, _ := net.SplitHostPort(at.Host)
		args = append(args, "-port", port)
	}
	return args
}

func (c *child) born(process *os.Process, address string, took time.Duration) {
	c.mu.Lock()
	c.address = address
	again := c.deaths > 0
	c.mu.Unlock()
	if again {
		c.board.say("%s runs again as pid %d, ready after %.1f s %s", c.name, process.Pid, took.Seconds(), address)
	}
	c.set(process, true)
}

func (c *child) died(pid int, how *os.ProcessState, log *tail) {
	c.mu.Lock()
	c.deaths++
	c.mu.Unlock()
	c.board.say("%s (pid %d) is gone: %s. It is started again.", c.name, pid, how)
	if how.Exited() && !how.Success() { // of itself
		c.board.say("%s", log)
	}
}

// set notes who the child is now, and wakes those who wait for it.
func (c *child) set(process *os.Process, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process, c.ready = process, ready
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until the child is ready, and reports whether it is.
func (c *child) await(ctx context.Context) bool {
	for {
		c.mu.Lock()
		if c.ready {
			c.mu.Unlock()
			return true
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// kill ends the child without a warning.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Kill() // it may be dead already
	}
}

// where returns the process id, and the address if the child has one.
func (c *child) where() (pid int, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		pid = c.process.Pid
	}
	return pid, c.address
}

// tail keeps the end of a log.
type tail struct {
	also   io.Writer
	prefix string

	mu   sync.Mutex
	last []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	t.last = t.last[max(0, len(t.last)-tailBytes):]
	if t.also != nil {
		for line := range strings.Lines(string(p)) {
			_, _ = fmt.Fprintf(t.also, "%s: %s\n", t.prefix, strings.TrimSuffix(line, "\n"))
		}
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}

// sleep waits, and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}
