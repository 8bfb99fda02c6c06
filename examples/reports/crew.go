package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// crew is all processes of the service.
type crew struct {
	server, ui *child
	workers    []*child
	board      *board

	running sync.WaitGroup
	kills   int
}

// hire makes the crew for a database, and starts nothing.
func hire(o options, url, schema string, b *board, stderr io.Writer) (*crew, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var log io.Writer
	if o.verbose {
		log = stderr
	}
	employ := func(name, role string, args ...string) *child {
		args = append([]string{role, "-leash", "-schema", schema, "-verbose=" + strconv.FormatBool(o.verbose)}, args...)
		return &child{name: name, args: args, program: program, env: environment(url), board: b, verbose: log, changed: make(chan struct{})}
	}
	c := &crew{board: b}
	c.server = employ("server", roleServer, "-port", strconv.Itoa(o.port))
	for _, name := range []string{"worker a", "worker b"} {
		c.workers = append(c.workers, employ(name, roleWorker, "-name", name, "-takes", o.takes.String(), "-lease", o.lease.String()))
	}
	c.ui = employ("River UI", roleUI, "-port", strconv.Itoa(o.uiPort))
	return c, nil
}

// environment is this process's, with another database.
func environment(url string) []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DATABASE_URL=") {
			env = append(env, v)
		}
	}
	return append(env, "DATABASE_URL="+url)
}

func (c *crew) all() []*child { return append([]*child{c.server, c.ui}, c.workers...) }

// start starts everybody, and returns when all are ready. When ctx ends, all end. If one of them cannot be kept alive, fail is
// told.
func (c *crew) start(ctx context.Context, fail context.CancelCauseFunc) error {
	for _, member := range c.all() {
		c.running.Go(func() {
			if err := member.keep(ctx); err != nil {
				fail(err)
			}
		})
	}
	if !c.ready(ctx) {
		return context.Cause(ctx)
	}
	return nil
}

func (c *crew) ready(ctx context.Context) bool {
	for _, member := range c.all() {
		if !member.await(ctx) {
			return false
		}
	}
	return true
}

// wait waits until all have ended.
func (c *crew) wait() { c.running.Wait() }

// roll lists the processes, and what can be done to them.
func (c *crew) roll() string {
	var b strings.Builder
	for _, member := range c.all() {
		pid, address := member.where()
		fmt.Fprintf(&b, "  %-9s pid %-7d %s\n", member.name, pid, address)
	}
	server, _ := c.server.where()
	worker, _ := c.workers[0].where()
	_, ui := c.ui.where()
	fmt.Fprintf(&b, `
  Tools: %s, %s and %s, header "Authorization: Bearer %s". Try, in another terminal:

    kill -9 %-7d a worker dies in the middle of a report: the other one takes it over in some ten seconds
    kill %-10d it is asked to stop: it hands its reports back, and another worker begins them at once
    kill -9 %-7d the server dies: the agent repeats its call with the same key and gets the same job
    %s: press Retry on a job that is completed: it is not done again
`, toolBuild, toolStatus, toolCancel, demoToken, worker, worker, server, ui)
	return b.String()
}

// torment kills members of the crew at random until ctx ends, a worker first. It waits until all are ready before it kills the
// next one, or on a slow machine nobody would ever do anything.
func (c *crew) torment(ctx context.Context, most int, pause time.Duration) {
	victims := []*child{c.workers[rand.IntN(len(c.workers))]}
	for wait := pause / 2; c.kills < most && sleep(ctx, wait) && c.ready(ctx); wait = pause/2 + rand.N(pause+1) {
		victim := victims[0]
		pid, _ := victim.where()
		c.board.say("kill -9 %d: %s", pid, victim.name)
		victim.kill()
		c.kills++
		if victims = victims[1:]; len(victims) == 0 {
			victims = c.all()
			rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		}
	}
}
