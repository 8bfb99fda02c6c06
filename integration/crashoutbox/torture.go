package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// How many processes there are at a time, of each role.
const (
	relays  = 3
	servers = 5
)

// backlog is how many messages may be pending before no more are published.
const backlog = 300

// Messages are published in waves: between them, relays have nothing to do.
const (
	wave = 4 * time.Second
	calm = wave / 4
)

// The longest lives. A process that lives longer hangs.
const (
	longestLife = 5 * time.Minute
	longestLast = 20 * time.Minute
)

// everySoOften is the pause between two sessions that the server ends.
const everySoOften = 2 * time.Second

// history is what happened, as the parent knows it.
type history struct {
	intents    []intent
	told       []told
	arrivals   []arrival // in order
	deaths     []dead
	stopped    []time.Duration // how long relays were stopped that went on
	terminated int             // sessions that the server ended
	lives      int
	drained    time.Duration // from the last kill until all messages had ended
	problems   []string
}

// told is an answer and who gave it.
type told struct {
	answer
	Life int
}

// dead is a process that was killed.
type dead struct {
	mark
	at time.Time
}

// torturer runs the processes and remembers what they said.
type torturer struct {
	o        options
	pool     *pgxpool.Pool
	receiver *receiver
	schedule *schedule
	keeper   *lives.Keeper
	progress *lives.Progress

	mu      sync.Mutex
	history history
}

// torture kills processes until there are deaths enough, waits for the messages to end, and compares what arrived with the
// database, which must be fresh.
func torture(ctx context.Context, o options, p lives.Place, stderr io.Writer) (r *report, err error) {
	pool, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	receiver, err := receive(o.seed)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	t := &torturer{
		o: o, pool: pool, receiver: receiver, schedule: newSchedule(o, p, receiver.url), progress: lives.NewProgress(stderr, "crash-outbox", o.kills),
	}
	var b books
	left, err := lives.Outlived(ctx, pool, applicationName, func(alive *os.File) (err error) {
		t.keeper = lives.NewKeeper(processEnv, alive)
		b, err = t.run(ctx)
		return err
	})
	if err = errors.Join(err, receiver.stop(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	t.history.arrivals = receiver.all()
	t.history.problems = append(t.history.problems, receiver.problems...)
	if left != "" {
		t.history.problems = append(t.history.problems, left)
	}
	return newReport(o, t.history, b, time.Since(begin)), nil
}

// run is all of a run until its processes are gone.
func (t *torturer) run(ctx context.Context) (b books, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var deliver, serve, play sync.WaitGroup
	lane := func(wg *sync.WaitGroup, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	for range relays {
		lane(&deliver, t.relays)
	}
	for range servers {
		lane(&serve, t.servers)
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	lane(&play, func(context.Context) error { return t.play(playing) })
	t.killing(ctx)
	t.progress.End()
	t.keeper.Tell(string(relay), spare)
	t.keeper.Tell(string(server), spare)
	stop()
	play.Wait()
	serve.Wait()
	if ctx.Err() == nil {
		err = t.drain(ctx)
	}
	if err == nil && ctx.Err() == nil {
		b, err = t.settle(ctx)
	}
	t.keeper.Tell(string(relay), leave)
	if err != nil {
		cancel(err)
	}
	deliver.Wait()
	t.history.intents, t.history.lives = t.schedule.intents, t.schedule.lives
	return b, context.Cause(ctx)
}

// killing waits until there are deaths enough, or for so long that there will be no more.
func (t *torturer) killing(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-t.schedule.over:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if since := t.keeper.SinceKill(); since > t.o.stuck {
			t.complain("nobody died for %v", since)
			return
		}
	}
}

// play has the server end sessions of the processes, until ctx ends.
func (t *torturer) play(ctx context.Context) error {
	for lives.Pause(ctx, everySoOften) == nil {
		tag, err := t.pool.Exec(ctx, sqlTerminate, applicationName)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		t.mu.Lock()
		t.history.terminated += int(tag.RowsAffected())
		t.mu.Unlock()
	}
	return nil
}

// relays runs one relay after the other until they are to leave.
func (t *torturer) relays(ctx context.Context) error {
	for !t.keeper.Told(string(relay), leave) {
		if err := t.live(ctx, t.schedule.relay(), longestLife); err != nil {
			return err
		}
	}
	return nil
}

// servers runs one server after the other until every intent was told.
func (t *torturer) servers(ctx context.Context) error {
	for begin := time.Now(); ; {
		n, err := pending(ctx, t.pool)
		if err != nil {
			return err
		}
		rising := time.Since(begin)%wave > calm
		sparing := t.keeper.Told(string(server), spare)
		a, ok := t.schedule.server(n < backlog && rising && !sparing)
		switch {
		case ok:
			if err := t.live(ctx, a, longestLife); err != nil {
				return err
			}
			continue
		case sparing && !t.schedule.untold():
			return nil
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}

// drain waits until all messages have ended, or for so long that those that have not are given up.
func (t *torturer) drain(ctx context.Context) error {
	for begin := time.Now(); ; {
		n, err := pending(ctx, t.pool)
		if err != nil {
			return err
		}
		t.history.drained = t.keeper.SinceKill()
		if n == 0 || time.Since(begin) > t.o.stuck {
			return nil
		}
		if err := lives.Pause(ctx, lives.LookAgain); err != nil {
			return err
		}
	}
}

// settle makes each call once more, which must publish nothing, and reads the books.
func (t *torturer) settle(ctx context.Context) (books, error) {
	b, err := readBooks(ctx, t.pool)
	if err != nil {
		return b, err
	}
	if err := t.live(ctx, t.schedule.last(), longestLast); err != nil {
		return b, err
	}
	after, err := readBooks(ctx, t.pool)
	t.history.problems = append(t.history.problems, b.changes(after)...)
	return after, err
}

// live runs a process to its end, of whatever kind. It returns an error only if there was none to run, if ctx ended, or if the
// process hung.
func (t *torturer) live(ctx context.Context, a assignment, longest time.Duration) error {
	if a.Death == nil && a.Role == relay {
		longest = longestLast
	}
	var left *mark
	var markErr error
	end, err := t.keeper.Live(ctx, string(a.Role), a, longest, func(ctx context.Context, p *lives.Process) {
		left, markErr = lives.Watch(p, func(m mark) bool { return m.Stopped }, func(m mark) { t.hold(ctx, p, m) })
	})
	if err != nil {
		return err
	}
	l := newLife(end, left, markErr)
	t.progress.At(t.schedule.settle(a, l))
	t.note(a, l)
	return nil
}

func (t *torturer) note(a assignment, l life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	for _, said := range l.told {
		h.told = append(h.told, told{answer: said, Life: a.Life})
	}
	if d, ok := l.death(); ok {
		h.deaths = append(h.deaths, dead{d, l.at})
	}
	if l.problem != "" {
		h.problems = append(h.problems, fmt.Sprintf("%s %d: %s", a.Role, a.Life, l.problem))
	}
}

// complain makes the run fail.
func (t *torturer) complain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history.problems = append(t.history.problems, fmt.Sprintf(format, args...))
}
