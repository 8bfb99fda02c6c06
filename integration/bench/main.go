// Bench says what protection costs: it runs the same write with and without it, in turn and in one process against one
// Postgres, and prints how they compare.
//
//	go run ./integration/bench            # about five minutes
//	go run ./integration/bench -quick     # a second or two: does it work, not how fast
//	go run ./integration/bench growth     # long: what calls cost on large tables (-quick, -sizes and -time make it shorter)
//	go run ./integration/bench jobs       # about two minutes: jobs against plain River
//	go run ./integration/bench status     # about a minute: how fast one can ask for status, and hears of ends
//	go run ./integration/bench outbox     # twelve minutes on a busy machine: messages a second, what publishing costs (-bloat 10m: on a table that no vacuum cleans)
//	go run ./integration/bench peers      # about two minutes: calls against DBOS Go, jobs against plain River
//	go run ./integration/bench soak       # an hour (-time 10m): does anything grow under steady load
//
// The server is a throwaway one with fsync on, or the one that TXONCE_TEST_DATABASE_URL or DATABASE_URL names: there the
// benchmark works in schemas of its own and drops them at the end.
//
// # Shapes
//
//   - bare: BEGIN, the effect (one row), COMMIT. What one would write without protection.
//   - floor: bare, and the row that ours would write as the call's record, in the same number of turns. Nothing that
//     keeps a record in the effect's transaction can be faster on a socket.
//   - five: BEGIN, claim the key by INSERT ... ON CONFLICT, the effect, UPDATE of the claim, COMMIT. The usual form, in one
//     transaction.
//   - ours: [txidem.Run] with a key, all of it: identity, canonical arguments, lock, effect, record, encoding.
//   - replay: [txidem.Run] of calls that are recorded already.
//   - batch: [txidem.RunBatch] with the same effect, all in one round trip.
//   - by hand: a committed claim, no effect, a committed finish: what one would write around an effect elsewhere.
//   - leased: [txidem.RunLeased] around no effect.
//
// # How it measures
//
// A setting is a link (a socket, or a millisecond of network) and a number of workers. In each round, and in each setting,
// the shapes take turns, a tenth of a second each, until each has had its time; who is first rotates. So whatever else the
// machine does hits all of them alike. They share the connections, so that none has the luck of better placed server
// processes, and the tables, so that none has a larger one. Each turn of a setting begins with empty tables, a CHECKPOINT and
// a warm-up. The autovacuum of a throwaway server is off.
//
// Each setting is checked in each round: so many calls, so many effects, records and claims, or the benchmark fails.
//
// A number in the table is the median of all slices. A ratio is the median of the ratios of slices that were neighbours;
// behind it is the range in which the middle half of those lies.
//
// # Growth
//
// "bench growth" compares calls on tables of 10^4, 10^6 and 10^7 records (Q02), and measures the sweeper (R12). Each size has a
// schema of its own in one database; all are loaded first, by COPY of rows that are a call's own but for key, answer and
// times. Nine calls in ten were to be remembered for ten minutes and one for a day, as far as the shares in the tables go, and
// what was loaded expires evenly over that time. Autovacuum is on.
//
// Then the sizes take turns of a few seconds: first calls, with a sweeper beside them. The calls of a turn are forgotten
// half a second after they were made, so that the sweeper has about as much to delete as is written, and the
// table keeps its size. WAL per call is that of a short part of each turn, in which nobody sweeps.
//
// Then expired records are loaded into the largest table and swept at once, beside calls; then the sweeper finds nothing.
// In the end the rows of all tables are counted: what was loaded and called, less what was swept.
//
// # Jobs
//
// "bench jobs" compares package jobs with what one would write with River alone: InsertTx in a transaction with nothing
// else, and a worker that writes the effect and calls JobCompleteTx in one transaction. Both have the effect of the shapes above
// (one row), the same arguments, pool, River tables and fetch settings, and a client of their own in this process. The sides
// take turns, half a second each, which begin with empty tables and a CHECKPOINT and end when River has written down the end
// of each job; then effects and jobs are counted.
//
//   - Rates: there are four jobs for each worker at any time, one of which is worked. What is counted is jobs that end, so
//     that submissions are part of it.
//   - Times: one job at a time, with pauses, since River notifies workers no more often than they fetch. Times are of this
//     process: the work begins where the worker's function does, and has ended when that of River returns.
//   - Calls: what a submission costs [txidem.Run], whose handler does nothing else, against one that writes a row, on both links.
//
// # Status
//
// "bench status" measures how fast one can ask what became of a call, and how soon those who wait for an end hear of it.
//
//   - Reads: 16 workers, each of which asks for one call at a time, of a call that has ended (one of 2,000) or of one that was
//     never made: by [txidem.Store.Statuses], and by the handler of package statustool, in which the questions of all workers
//     share two connections. The kinds take turns, a tenth of a second each, with a bare select of the row among them.
//   - Wakes: a thousand wait by the handler of package statustool, each for a job in the queue or for a leased call that runs,
//     and whoever hears of its end waits for the next one. A hundred end in a second, at random times. The time is from the
//     answer of COMMIT, where the work was done, to the answer of the handler. What is another process in the table is a store
//     and a runner of their own on a pool of their own, which hear of nothing and have to look.
//
// In the end all that was begun ends, and the benchmark fails unless each of those who wait hears that it has succeeded.
//
// # Outbox
//
// "bench outbox" measures package outbox with a receiver that is a function of this process and takes each message at once. The
// autovacuum of a throwaway server is on, for a vacuum is a part of what a relay costs.
//
//   - Rates: 16 workers publish and a relay delivers, or two, of which the second is an outbox of its own on a pool of its own. What
//     publishes is a protected call whose handler does nothing else, or a transaction of 1 or 10 messages with one ordering key, if
//     they have any. At most 2,000 messages wait at a time; who publishes waits for room. So the rate is that of the slower of the two,
//     and the backlog tells which. Each slice begins with empty tables and a CHECKPOINT and ends when all has been delivered and that is
//     written down; then messages and attempts are counted.
//   - Trips: protected calls publish at random times, 200 a second. The time is from the answer of COMMIT, where the call was made, to
//     the beginning of the receiver's function. A relay in another process is an outbox of its own on a pool of its own, which hears
//     of nothing and has to look.
//   - Drains: a relay finds a backlog, behind a vacuum. The time ends when it has stopped, and so has written down all ends.
//   - Calls: [txidem.Run] with an effect against the same with a message as well, in turn as the shapes are; no relay is running.
//
// "bench outbox -bloat 10m" publishes 1,000 messages a second, half of them with ordering keys, and delivers them, while a
// transaction elsewhere in the database holds a snapshot, so that no vacuum removes a dead row. Before that, and after that
// and a vacuum, it does so without the snapshot, for a tenth and a fifth of the time.
//
// # Peers
//
// "bench peers" compares with others' libraries, which do the same work: a call with a key inserts one row and has an answer.
//
//   - Calls (Q01): [txidem.Run] against DBOS Transact for Go, by RunAsTransaction in a workflow whose id is the key and whose result is
//     waited for. DBOS is launched with its defaults, in the two ways of its tutorial: with the system database on a pool of its own, and on
//     the pool that all peers share, which lets it write effect and step in one transaction. Pools have 20 connections, its
//     default. The last line compares with the second, quicker way. For scale [txidem.RunBatch] makes the call as well, and two transactions without a library: one has
//     the effect, the other inserts our record too, which is the least that a protected call of three round trips can cost. The peers
//     take turns, a quarter of a second each, in rounds that begin with empty tables and a CHECKPOINT.
//   - Jobs (Q03): the sides of "bench jobs", measured as there.
//
// Each round is checked: so many calls, so many effects of so many keys, each with its record or its workflow and what DBOS keeps of
// the transaction.
// What DBOS does beside (it listens on a connection, and looks for queued workflows each second) goes on in all turns.
//
// # Soak
//
// "bench soak" is one process that uses the library on one pool of 24 connections, under steady load (Q02): first
// calls, replays, recorded failures, handlers that break, jobs that are submitted and worked, messages that are published and
// relayed to a function, questions for the status of calls and jobs, and the sweeper. It makes no call by RunBatch, RunLeased or RunTx, and has no
// adapter in front. Operations begin at the asked rate, whether or not
// others have ended, and their times count from when they should have begun. Records and jobs are kept for a minute (less
// in runs below four minutes) and messages for one, and River rebuilds its indexes six times in the run instead of once a day, so that tables come
// to a size that they keep. Autovacuum is on.
//
// Sixty times in the run it looks at its memory, its heap behind a garbage collection, its goroutines, its sessions, and the sizes of
// our tables and River's. What is compared are medians of the tenth of the run behind the first one, which is a warm-up, and of the last
// one. The run fails when
//
//   - anything went wrong, if only once: an error, another answer in a replay, a warning in a log, a lost or doubled effect, job or message,
//   - fewer than 90 % of the asked operations ended well,
//   - there are more than 25 goroutines more, beside those of operations under way, or more than 4 sessions,
//   - a goroutine or a session is left when all is closed,
//   - in runs of ten minutes or more: the memory of the process has grown to more than 1.25 times, or a table in the last
//     third of the run to more than 1.25 times and 1 MB above what it had in the second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are what the command line may say.
type options struct {
	rounds int
	time   time.Duration // of a shape in a setting and a round
	known  int           // records that replay finds
	url    string        // of the server, for tests; empty means that devpg decides
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The exit statuses.
const (
	exitGood        = 0
	exitBad         = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// command is the program. It returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name, begin := "bench", beginShapes
	if len(args) > 0 {
		switch args[0] {
		case "growth":
			name, begin, args = "growth", beginGrowth, args[1:]
		case "jobs":
			name, begin, args = "bench-jobs", beginJobs, args[1:]
		case "status":
			name, begin, args = "bench-status", beginStatus, args[1:]
		case "outbox":
			name, begin, args = "bench-outbox", beginOutbox, args[1:]
		case "peers":
			name, begin, args = "bench-peers", beginPeers, args[1:]
		case "soak":
			name, begin, args = "soak", beginSoak, args[1:]
		}
	}
	measure, err := begin(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitGood
	case err != nil:
		return exitUsage // it has been said why
	}
	err = measure(ctx, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "\n%s: interrupted: %v\n", name, err)
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return exitBad
	}
	return exitGood
}

// measurement is a run whose options are known.
type measurement func(ctx context.Context, stdout, stderr io.Writer) error

func beginShapes(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseOptions(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return run(ctx, o, stdout, stderr) }, err
}

func beginGrowth(args []string, stderr io.Writer) (measurement, error) {
	o, err := parseGrowth(args, stderr)
	return func(ctx context.Context, stdout, stderr io.Writer) error { return runGrowth(ctx, o, stdout, stderr) }, err
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{known: 1000}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "rounds; medians of fewer than 5 say little")
	flags.DurationVar(&o.time, "time", time.Second, "how long each shape is measured, in each setting and round")
	quick := flags.Bool("quick", false, "one very short round, to see that it works")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *quick {
		o = options{rounds: 1, time: 20 * time.Millisecond, known: 50}
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.time <= 0 {
		err := fmt.Errorf("bench: -rounds and -time must be positive, and there are no arguments")
		fmt.Fprintln(stderr, err)
		return options{}, err
	}
	return o, nil
}

// run measures everything and prints the report on stdout, its progress on stderr.
func run(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	db, err := openDatabase(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, db.close(context.WithoutCancel(ctx))) }()
	fmt.Fprintf(stderr, "bench: PostgreSQL %s, %s\n", db.server.Version(), db.server.Source())

	links, closeLinks, err := openLinks(ctx, db)
	if err != nil {
		return err
	}
	defer closeLinks()
	b := &bench{db: db, options: o, shapes: shapes(), links: links, samples: make(map[cell][]sample), progress: stderr}
	if b.turns, err = countTurns(ctx, db, b.shapes); err != nil {
		return err
	}
	if err := b.measureAll(ctx); err != nil {
		return err
	}
	return b.report(stdout, time.Since(began))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
