package txidemtest

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// label marks the goroutines of a check, and all that they start.
const label = "txidemtest"

// How long the check waits for what a call has left behind.
const (
	poll        = 2 * time.Millisecond
	forConns    = 5 * time.Second  // of the pool
	forSessions = 20 * time.Second // of Postgres, which notices in a second that a client is gone
	forRoutines = 2 * time.Second
	forAll      = 20 * time.Second // all waiting for goroutines of one check
)

// settle waits until nothing of a call goes on. It returns what does not end.
func (k *kit) settle(ctx context.Context) (problem string, err error) {
	defer func() { k.stuck = k.stuck || problem != "" }()
	k.waitForRoutines(ctx)
	if !eventually(ctx, forConns, func() bool { return k.pool.Stat().AcquiredConns() == 0 }) {
		return fmt.Sprintf("the call has returned and %d connections of the pool were not given back: "+
			"something keeps a connection, a transaction or rows (Acquire, Begin, Query) without releasing it", k.pool.Stat().AcquiredConns()), nil
	}
	left := ""
	ended := eventually(ctx, forSessions, func() bool {
		err = k.judge.QueryRow(ctx, sqlLeft, k.app).Scan(&left)
		return err != nil || left == ""
	})
	if err != nil || ended {
		return "", err
	}
	return "the call has returned and something of it is left in the database: " + left, nil
}

// waitForRoutines waits for goroutines that a call has left behind, so that what they write is counted. There may be some
// that stay for good, so it has an end.
func (k *kit) waitForRoutines(ctx context.Context) {
	begin := time.Now()
	eventually(ctx, min(forRoutines, forAll-k.waited), func() bool { return !k.routines() })
	k.waited += time.Since(begin)
}

// eventually polls until cond is true, and reports whether it became so. It is for what is done elsewhere, of which no
// signal comes.
func eventually(ctx context.Context, timeout time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(timeout); !cond(); {
		if ctx.Err() != nil || !time.Now().Before(deadline) {
			return false
		}
		<-time.After(poll)
	}
	return true
}

// routines reports whether there is a goroutine that a call started, other than the pool's own.
func (k *kit) routines() bool {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return false
	}
	mark := fmt.Sprintf("%q:%q", label, k.app)
	for _, group := range strings.Split(b.String(), "\n\n") {
		labels, stack, _ := strings.Cut(group, "\n#\t")
		if strings.Contains(labels, mark) && !isPoolRoutine(stack) {
			return true
		}
	}
	return false
}

// isPoolRoutine reports whether pgx or its pool began a goroutine: whether the function at the bottom of its stack is
// one of theirs.
func isPoolRoutine(stack string) bool {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	return strings.Contains(lines[len(lines)-1], "github.com/jackc/")
}
