package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

// longestLife is that of a process: a run may be as long as somebody wants.
const longestLife = 24 * time.Hour

// storm runs the processes and the agents, and remembers what they said.
type storm struct {
	o        options
	postgres *servers.Server
	pool     *pgxpool.Pool
	receiver *receiver
	keeper   *lives.Keeper
	board    *board
	book     *phoneBook
	history  *history
	shared   chan intent // to be called for by two agents at a time
	victims  *victims
	progress *lives.Progress
	extended atomic.Bool // the time is over, and the run goes on

	mu       sync.Mutex
	lives    int
	events   events
	jobsSaid map[string]statustool.Report // by the id of the job, in the end
	jobsEnds map[string]toolcall.State    // as agents were told of them meanwhile
	away     bool                         // the database
	problems []string
}

// events are what was done to the processes and to the database.
type events struct {
	kills   map[role]int
	stops   map[role]int    // of those that went on
	leaves  map[role]int    // in good order, while agents made calls
	db      []time.Duration // when the database was killed, since the run began
	back    time.Duration   // when it was last there again
	begun   time.Duration   // when agents began to make calls
	over    time.Duration   // when they did no more
	settled time.Duration   // from the end of that until all was settled
}

// brew lets the storm run on a fresh server, waits until it has settled, and reads what it left.
func brew(ctx context.Context, o options, db *servers.Server, stderr io.Writer) (r *result, err error) {
	place := lives.Place{URL: db.URL()}
	pool, err := prepare(ctx, place)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	receiver, err := receive()
	if err != nil {
		return nil, err
	}
	s := &storm{
		o: o, postgres: db, pool: pool, receiver: receiver, board: newBoard(o.seed), book: &phoneBook{urls: make(map[int]string)},
		history: newHistory(), shared: make(chan intent), victims: newVictims(), progress: lives.NewProgress(stderr, program, o.kills()),
		events: events{kills: make(map[role]int), stops: make(map[role]int), leaves: make(map[role]int)}, jobsSaid: make(map[string]statustool.Report),
		jobsEnds: make(map[string]toolcall.State),
	}
	var b books
	left, err := lives.Outlived(ctx, pool, applicationName, func(alive *os.File) (err error) {
		s.keeper = lives.NewKeeper(processEnv, alive)
		b, err = s.run(ctx, place)
		return err
	})
	if err = errors.Join(err, receiver.stop(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	if left != "" {
		s.complain("%s", left)
	}
	return s.result(b), nil
}

// run is all of a run until its processes are gone.
func (s *storm) run(ctx context.Context, place lives.Place) (b books, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var processes sync.WaitGroup
	for role, n := range roles() {
		for n := range n {
			processes.Go(func() {
				if err := s.keepAlive(ctx, role, n, place); err != nil {
					cancel(err)
				}
			})
		}
	}
	if err = s.book.waitFor(ctx); err == nil {
		err = s.rage(ctx)
	}
	if err == nil {
		err = s.settle(ctx)
	}
	for role := range roles() {
		s.keeper.Tell(string(role), leave)
	}
	if err != nil {
		cancel(err)
	}
	late := time.AfterFunc(3*longestLeave, func() { cancel(errors.New("chaos: a process does not leave")) })
	processes.Wait()
	late.Stop()
	if err := context.Cause(ctx); err != nil {
		return b, err
	}
	return readBooks(ctx, s.pool) // behind the last process: one that was stopped may have written late
}

// keepAlive runs one process after the other until they are to leave.
func (s *storm) keepAlive(ctx context.Context, r role, n int, place lives.Place) error {
	for !s.keeper.Told(string(r), leave) {
		s.mu.Lock()
		s.lives++
		a := assignment{Life: s.lives, Role: r, N: n, Place: place, Receiver: s.receiver.url, Plant: s.o.plant}
		s.mu.Unlock()
		var v *victim
		end, err := s.keeper.Live(ctx, string(r), a, longestLife, func(_ context.Context, p *lives.Process) {
			v = s.victims.enlist(r, p)
			s.listen(p, n)
		})
		if err != nil {
			return err
		}
		killed, told := s.victims.discharge(v)
		if err := s.bury(a, end, killed, told); err != nil {
			return err
		}
	}
	return nil
}

// listen hears where a server listens, and returns when the process is gone.
func (s *storm) listen(p *lives.Process, n int) {
	marks := json.NewDecoder(p.Marks())
	for {
		var m mark
		if err := marks.Decode(&m); err != nil { // its end
			return
		}
		s.book.enter(n, m.URL)
	}
}

// bury notes the end of a process. killed says that it was our doing, and told when it was told to leave while others stay. A process that
// ends in another way ends the run.
func (s *storm) bury(a assignment, end lives.End, killed bool, told time.Duration) error {
	excused := told > 0 && s.wasAway(told) && !bytes.Contains(end.Stderr, []byte("goroutine "))
	switch {
	case end.InputErr != nil && !killed:
		return fmt.Errorf("chaos: %s %d: %w", a.Role, a.Life, end.InputErr)
	case len(end.Stderr) > 0 && !excused:
		return fmt.Errorf("chaos: %s %d complains: %s", a.Role, a.Life, end.Stderr)
	case end.Killed() && killed:
		s.mu.Lock()
		s.events.kills[a.Role]++
		s.mu.Unlock()
		s.count()
	case end.Killed():
		return fmt.Errorf("chaos: %s %d was killed by somebody else", a.Role, a.Life)
	case end.Status.ExitStatus() == lives.ExitGood && told > 0:
		s.mu.Lock()
		s.events.leaves[a.Role]++
		s.mu.Unlock()
	case excused:
	case end.Status.ExitStatus() != lives.ExitGood || !s.keeper.Told(string(a.Role), leave):
		return fmt.Errorf("chaos: %s %d ended with status %d", a.Role, a.Life, end.Status.ExitStatus())
	}
	return nil
}

// shortly is how long behind the return of the database a process may still find connections that broke with it.
const shortly = 5 * time.Second

// wasAway reports whether the database was away at that time, shortly before it, or since: who is to leave then may not be able to do so in
// good order, and say so.
func (s *storm) wasAway(at time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away || len(s.events.db) > 0 && s.events.back+shortly > at
}

// longestExtension is how much longer than asked for a run takes, at most, or as long again if that is more.
const longestExtension = 2 * time.Minute

// rage has agents make calls, while processes and the database are killed, for as long as the run is to take.
func (s *storm) rage(ctx context.Context) error {
	storming, cancel := context.WithTimeout(ctx, s.o.time+max(s.o.time, longestExtension))
	defer cancel()
	s.events.begun = s.history.now()
	var all sync.WaitGroup
	all.Go(func() {
		s.extend(storming)
		cancel()
	})
	for n := range agents {
		all.Go(func() { s.newAgent(n).run(ctx, storming) })
	}
	all.Go(func() { s.receiver.flip(storming) })
	err := s.mayhem(ctx, storming, cancel)
	cancel()
	all.Wait()
	s.events.over = s.history.now()
	s.progress.End()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// settle has everything end that is open, and asks what became of it.
func (s *storm) settle(ctx context.Context) error {
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, s.o.stuck)
	defer cancel()
	var open []intent
	for _, i := range s.board.intents() {
		if _, ok := s.board.answer(i.N); !ok {
			open = append(open, i)
		}
	}
	s.together(open, func(a *agent, i intent) { a.insist(limited, i) })
	if err := s.drain(ctx); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, 5*s.o.stuck)
	defer cancel()
	s.together(s.board.intents(), func(a *agent, i intent) { a.askAll(asking, i) })
	s.events.settled = time.Since(begin)
	return context.Cause(ctx)
}

// together has all agents do something about each of the intents.
func (s *storm) together(intents []intent, do func(*agent, intent)) {
	work := make(chan intent)
	var all sync.WaitGroup
	for n := range agents {
		all.Go(func() {
			a := s.newAgent(agents + n)
			defer a.client.close()
			for i := range work {
				do(a, i)
			}
		})
	}
	for _, i := range intents {
		work <- i
	}
	close(work)
	all.Wait()
}

// drain waits until all jobs and messages have ended, or for so long that those that have not are stuck.
func (s *storm) drain(ctx context.Context) error {
	for begin := time.Now(); ; {
		jobs, messages, err := open(ctx, s.pool)
		if err != nil || jobs+messages == 0 || time.Since(begin) > s.o.stuck {
			return err
		}
		if err := lives.Pause(ctx, 10*lives.LookAgain); err != nil {
			return err
		}
	}
}

// told notes what is said of a job in the end.
func (s *storm) told(job string, r statustool.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobsSaid[job] = r
}

// endOf is how the job has ended, if anybody was told so.
func (s *storm) endOf(job string) toolcall.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobsEnds[job]
}

// compare compares what is said of a job with what was said before the question. Its end is the last thing that it comes to.
func (s *storm) compare(job string, before, now toolcall.State) {
	switch {
	case now == toolcall.StateNone:
		s.complain("job %s was submitted and is said not to be there", job)
	case now == statustool.StateUnavailable:
	case before != "" && now != before:
		s.complain("job %s was said to be %s, and later to be %s", job, before, now)
	case now == toolcall.StateSucceeded, now == toolcall.StateFailed, now == toolcall.StateCancelled:
		s.mu.Lock()
		defer s.mu.Unlock()
		if other := s.jobsEnds[job]; other != "" && other != now { // heard at the same time
			s.problems = append(s.problems, fmt.Sprintf("job %s was said to be %s, and also to be %s", job, other, now))
		}
		s.jobsEnds[job] = now
	}
}

// complain makes the run fail.
func (s *storm) complain(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// extend returns when the time of the run is over, and there was enough of everything that it must have, or storming ends. In what it
// adds to the time only that is killed of which there was too little, so that a slow machine comes to itself.
func (s *storm) extend(storming context.Context) {
	for err := lives.Pause(storming, s.o.time); err == nil && !s.enough(); {
		s.extended.Store(true)
		err = lives.Pause(storming, 10*lives.LookAgain)
	}
}

// wants reports whether one more is to be killed of something of which so many were.
func (s *storm) wants(kills int) bool { return !s.extended.Load() || kills < s.o.least() }

// enough reports whether there were as many kills of each kind as a run must have, and a call of which a server said something; in a
// whole run also a process of each role that was stopped and went on, and one that left.
func (s *storm) enough() bool {
	n := s.killed(database)
	for _, r := range inOrder() {
		n = min(n, s.killed(r))
	}
	return n >= s.o.least() && s.history.told(0) && (s.o.time < wholeTime || s.all(stops) && s.all(leaves))
}

// all reports whether something happened to processes of all roles.
func (s *storm) all(of func(*events) map[role]int) bool {
	return !slices.ContainsFunc(inOrder(), func(r role) bool { return !s.happened(of, r) })
}

// happened reports whether something happened to a process of the role.
func (s *storm) happened(of func(*events) map[role]int, r role) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of(&s.events)[r] > 0
}

func stops(e *events) map[role]int  { return e.stops }
func leaves(e *events) map[role]int { return e.leaves }

// killed is how many of a kind were killed.
func (s *storm) killed(r role) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == database {
		return len(s.events.db)
	}
	return s.events.kills[r]
}

// count shows how many kills there were.
func (s *storm) count() {
	s.mu.Lock()
	n := lives.Total(s.events.kills) + len(s.events.db)
	s.mu.Unlock()
	s.progress.At(n)
}
