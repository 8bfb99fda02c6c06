package lives

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrLeft is returned when something of the processes outlives them.
var ErrLeft = errors.New("something is left")

// Patience bounds waiting for what should happen soon, on a busy machine.
const Patience = 30 * time.Second

// LookAgain is the pause between two looks at what only the server knows.
const LookAgain = 10 * time.Millisecond

const sqlLeft = `
select (select count(*) from pg_locks l join pg_database d on d.oid = l.database
         where d.datname = current_database() and l.locktype = 'advisory'),
       (select count(*) from pg_stat_activity
         where datname = current_database() and application_name = $1)`

// Outlived runs processes, which hold alive open, and says what outlives them: a process, a lock or a session. The error is the
// run's, or says that it cannot be found out.
func Outlived(ctx context.Context, pool *pgxpool.Pool, applicationName string, run func(alive *os.File) error) (left string, err error) {
	watch, alive, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _, _ = watch.Close(), alive.Close() }()
	err = run(alive)
	stays := ProcessesLeft(alive, watch)
	if err != nil {
		return "", errors.Join(err, stays)
	}
	if stays == nil {
		stays = SessionsLeft(ctx, pool, applicationName)
	}
	if errors.Is(stays, ErrLeft) {
		return stays.Error(), nil
	}
	return "", stays
}

// SessionsLeft waits until locks and sessions of the processes are gone, and returns ErrLeft if they stay. That the server
// takes a moment to notice the death of a client is no fault.
func SessionsLeft(ctx context.Context, pool *pgxpool.Pool, applicationName string) error {
	tick := time.NewTicker(LookAgain)
	defer tick.Stop()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	for {
		var locks, sessions int
		if err := pool.QueryRow(ctx, sqlLeft, applicationName).Scan(&locks, &sessions); err != nil {
			return err
		}
		if locks == 0 && sessions == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("%w: %v after the last worker there are %d advisory locks and %d sessions", ErrLeft, Patience, locks, sessions)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ProcessesLeft waits until no process holds the write end of the pipe that all of them inherit, and returns ErrLeft if one
// keeps it.
func ProcessesLeft(alive, watch *os.File) error {
	_ = alive.Close()
	err := watch.SetReadDeadline(time.Now().Add(Patience))
	if err == nil {
		_, err = watch.Read(make([]byte, 1))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%w: %v after the last worker one of their processes lives: %w", ErrLeft, Patience, err)
}
