package jobs

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/toolcall"
)

// beats renews the leases of the attempts that run in this process and writes what they report, all in one statement and
// over a connection of its own: a busy pool must not cost a lease. It has a goroutine and a connection while an attempt
// runs, and a moment longer.
type beats struct {
	runner *Runner

	over sync.WaitGroup // the goroutine has ended

	mu   sync.Mutex
	live map[pgtype.UUID]*attempt // by token
	stop context.CancelFunc       // ends the goroutine
	wake chan struct{}            // something was reported
}

// reportEvery is the time between two writes of progress.
const reportEvery = time.Second

func (bs *beats) hold(a *attempt) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if len(bs.live) == 0 {
		ctx, stop := context.WithCancel(context.Background())
		bs.live, bs.stop, bs.wake = make(map[pgtype.UUID]*attempt), stop, make(chan struct{}, 1)
		wake := bs.wake
		bs.over.Go(func() { bs.run(ctx, wake) })
	}
	bs.live[a.token], a.wake = a, bs.wake
}

func (bs *beats) drop(a *attempt) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.live[a.token] != a {
		return
	}
	delete(bs.live, a.token)
	if len(bs.live) == 0 {
		bs.stop()
	}
}

// report notes what an attempt says of itself.
func (a *attempt) report(fraction float64, message string) {
	if math.IsNaN(fraction) {
		fraction = 0
	}
	a.mu.Lock()
	a.said, a.unsaid = &toolcall.Progress{Fraction: min(max(fraction, 0), 1), Message: clip(message, longestProgress)}, true
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run beats until ctx ends. A beat that fails is tried again soon: the lease outlives three of them.
func (bs *beats) run(ctx context.Context, wake <-chan struct{}) {
	bs.rest(ctx, wake, bs.interval())
	for ctx.Err() == nil {
		err := bs.runner.side.With(ctx, func(conn *pgx.Conn) error {
			for {
				if err := bs.beat(ctx, conn); err != nil {
					return err
				}
				if !bs.rest(ctx, wake, bs.interval()) {
					return nil
				}
			}
		})
		if err != nil && ctx.Err() == nil {
			bs.runner.log.WarnContext(ctx, "jobs: leases could not be renewed; it is tried again", "error", err)
			sleep(ctx, bs.interval()/4)
		}
	}
}

func (bs *beats) interval() time.Duration { return bs.runner.cfg.Lease / 4 }

// rest waits for the next beat: its time, or a report, but not so soon behind the last one. It reports whether ctx lasted.
func (bs *beats) rest(ctx context.Context, wake <-chan struct{}, interval time.Duration) bool {
	least := min(reportEvery, interval)
	if !sleep(ctx, least) {
		return false
	}
	timer := time.NewTimer(interval - least)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// beat renews what runs, and tells attempts that have lost their job or are to be cancelled.
func (bs *beats) beat(ctx context.Context, conn *pgx.Conn) error {
	bs.mu.Lock()
	running := make([]*attempt, 0, len(bs.live))
	for _, a := range bs.live {
		if !a.deaf(bs.runner.cfg.Lease) {
			running = append(running, a)
		}
	}
	bs.mu.Unlock()
	if len(running) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bs.interval()) // a silent connection must not cost a lease
	defer cancel()
	told, err := bs.tell(ctx, conn, running)
	if err != nil {
		return err
	}
	bs.runner.changes.Notify()
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, a := range running {
		word, ours := told[a.token.String()]
		switch {
		case bs.live[a.token] != a: // it has ended meanwhile
		case !ours:
			a.cancel(ErrLeaseLost)
		case word.cancelled:
			a.cancel(ErrCancelled)
		}
		if ours && !word.renewed {
			a.unheard()
		}
	}
	return nil
}

// word is what the database says of an attempt that has its job.
type word struct{ cancelled, renewed bool }

// tell sends the leases and the reports. Arrays of text, for pgx's modes without descriptions know no others.
func (bs *beats) tell(ctx context.Context, conn *pgx.Conn, running []*attempt) (map[string]word, error) {
	n := len(running)
	ids, tokens, fractions, messages := make([]string, n), make([]string, n), make([]*string, n), make([]string, n)
	for i, a := range running {
		ids[i], tokens[i] = a.id.String(), a.token.String()
		if said := a.news(); said != nil {
			fraction := strconv.FormatFloat(said.Fraction, 'f', -1, 32)
			fractions[i], messages[i] = &fraction, said.Message
		}
	}
	told := make(map[string]word)
	var token string
	var w word
	err := bs.query(ctx, conn, []any{ids, tokens, bs.runner.cfg.Lease.Seconds(), fractions, messages}, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&token, &w.cancelled, &w.renewed}, func() error {
			told[token] = w
			return nil
		})
		return err
	})
	if err != nil {
		for _, a := range running {
			a.unheard()
		}
	}
	return told, err
}

// query does not wait for the disk: what renews a lease may be lost with the server.
func (bs *beats) query(ctx context.Context, conn *pgx.Conn, args []any, read func(pgx.Rows) error) error {
	b := &pgx.Batch{}
	b.Queue("begin isolation level read committed")
	b.Queue(`select set_config('synchronous_commit', 'off', true)`)
	b.Queue(bs.runner.sql.beat, args...).Query(read)
	b.Queue("commit")
	return conn.SendBatch(ctx, b).Close()
}

// heeds notes the context of the user's function that is called, until that has returned.
func (a *attempt) heeds(ctx context.Context) (returned func()) {
	note := func(ctx context.Context) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.under, a.deafSince = ctx, time.Time{}
	}
	note(ctx)
	return func() { note(context.Background()) }
}

// deaf reports whether the user's function goes on although its context has ended that long ago. The attempt is as good as
// dead then: its lease runs out, and somebody else has the job.
func (a *attempt) deaf(since time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under == nil || a.under.Err() == nil {
		return false
	}
	if a.deafSince.IsZero() {
		a.deafSince = time.Now()
	}
	return time.Since(a.deafSince) > since
}

// news is what has been reported and not been written.
func (a *attempt) news() *toolcall.Progress {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.unsaid {
		return nil
	}
	a.unsaid = false
	return a.said
}

// unheard has what was sent last sent again.
func (a *attempt) unheard() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsaid = a.said != nil
}

// clip makes of s valid text of at most n bytes, without the one character that Postgres has no room for.
func clip(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
