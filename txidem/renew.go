package txidem

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// leases renews the leases of all calls that run in this process, in one statement, over a connection of its own: a busy
// pool must not cost a lease. It has a goroutine while there is a lease, and a connection only when one has to be renewed.
type leases struct {
	store *Store

	mu   sync.Mutex
	live map[pgtype.UUID]*lease // by token
	wake chan struct{}          // a lease has come that may be due sooner
	stop context.CancelFunc     // ends the goroutine
}

// margin is the part of a lease that is left to the handler when its context is cancelled.
const margin = 6

// hold begins to renew the lease.
func (ls *leases) hold(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.next = l.sent.Add(l.renewal)
	left := time.Until(l.deadline())
	if left <= 0 {
		l.cancel(ErrLeaseLost)
	}
	l.over = time.AfterFunc(left, func() { l.cancel(ErrLeaseLost) })
	if len(ls.live) == 0 {
		ctx, stop := context.WithCancel(context.Background())
		ls.live, ls.wake, ls.stop = make(map[pgtype.UUID]*lease), make(chan struct{}, 1), stop
		go ls.run(ctx, ls.wake)
	}
	ls.live[l.token] = l
	select {
	case ls.wake <- struct{}{}:
	default:
	}
}

// patience is how long a connection or a renewal may take until another one is tried: the time between two renewals, but not so
// little that a slow network never has enough of it, and not so much that there is no time for another one.
func (l *lease) patience() time.Duration {
	return min(max(l.renewal, min(l.length/margin, enoughForMost)), l.length/4)
}

// enoughForMost is what making a connection is given on a slow network. Leases that come meanwhile wait for as long.
const enoughForMost = 2 * time.Second

// deadline is when the handler must be told that the lease is about to end.
func (l *lease) deadline() time.Time { return l.sent.Add(l.length - l.length/margin) }

// drop ends the renewal of the lease. It may be called more than once.
func (ls *leases) drop(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.live[l.token] != l {
		return
	}
	l.over.Stop()
	delete(ls.live, l.token)
	if len(ls.live) == 0 {
		ls.stop()
	}
}

// run renews what is due until ctx ends.
func (ls *leases) run(ctx context.Context, wake <-chan struct{}) {
	for ls.await(ctx, wake) {
		err := ls.store.renewals.With(ctx, func(conn *pgx.Conn) error {
			for more := true; more; more = ls.await(ctx, wake) {
				if err := ls.renew(ctx, conn); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			ls.due() // not again at once
			ls.store.log.WarnContext(ctx, "txidem: leases could not be renewed; it is tried again", "error", err)
		}
	}
}

// await waits until a lease is due. It returns false when ctx has ended.
func (ls *leases) await(ctx context.Context, wake <-chan struct{}) bool {
	for {
		left := ls.untilNext()
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

func (ls *leases) untilNext() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	left := time.Hour
	for _, l := range ls.live {
		left = min(left, time.Until(l.next))
	}
	return left
}

// patience is how long to try for a connection: a lease can be renewed later, but not much later.
func (ls *leases) patience() time.Duration {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.leastPatience()
}

// leastPatience is that of the most impatient of all leases: which are due next does not count, since all share the connection.
func (ls *leases) leastPatience() time.Duration {
	patience := time.Hour
	for _, l := range ls.live {
		patience = min(patience, l.patience())
	}
	return patience
}

// due returns the leases that are to be renewed, and puts off their next time: to soon if that is not renewed.
func (ls *leases) due() (due []*lease, patience time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	for _, l := range ls.live {
		if soon := l.renewal / 4; l.next.Before(now.Add(soon)) { // those that are nearly due go along
			l.next = now.Add(soon)
			due = append(due, l)
		}
	}
	return due, ls.leastPatience()
}

// renew renews what is due over the connection.
func (ls *leases) renew(ctx context.Context, conn *pgx.Conn) error {
	due, patience := ls.due()
	if len(due) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := time.Now()
	held, err := ls.store.renew(ctx, conn, due, false)
	if err == nil {
		ls.note(due, held, sent)
	}
	return err
}

// renew renews the leases, if late also those that have run out, and returns those that are still held and whether they
// were renewed.
func (s *Store) renew(ctx context.Context, conn *pgx.Conn, due []*lease, late bool) (map[string]bool, error) {
	ids, tokens, lengths := make([]string, len(due)), make([]string, len(due)), make([]string, len(due))
	for i, l := range due {
		ids[i], tokens[i] = l.id.String(), l.token.String()
		lengths[i] = strconv.FormatFloat(l.length.Seconds(), 'f', -1, 64)
	}
	rows, err := conn.Query(ctx, s.sql.renew, ids, tokens, lengths, late)
	if err != nil {
		return nil, err
	}
	held := make(map[string]bool)
	var token string
	var renewed bool
	_, err = pgx.ForEachRow(rows, []any{&token, &renewed}, func() error {
		held[token] = renewed
		return nil
	})
	return held, err
}

// note takes over what the server said.
func (ls *leases) note(due []*lease, held map[string]bool, sent time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range due {
		if ls.live[l.token] != l {
			continue
		}
		switch renewed, ours := held[l.token.String()]; {
		case !ours:
			l.over.Stop()
			delete(ls.live, l.token)
			l.cancel(ErrLeaseLost)
		case renewed && l.over.Stop(): // else the handler has been told already, and that stays so
			l.sent, l.next = sent, sent.Add(l.renewal)
			l.over.Reset(time.Until(l.deadline()))
		}
	}
	if len(ls.live) == 0 {
		ls.stop()
	}
}
