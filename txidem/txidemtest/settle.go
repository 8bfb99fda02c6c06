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
)

// leftOut ends the last finding of a check that cannot go on.
const leftOut = " (the points behind this one are left out)"

// settle waits until nothing of a call goes on. It returns what does not end.
func (k *kit) settle(ctx context.Context) (problem string, err error) {
	defer func() {
		if problem != "" {
			k.stuck.Store(true)
		}
	}()
	k.waitForRoutines(ctx)
	if !eventually(ctx, forConns, func() bool { return k.pool.Stat().AcquiredConns() == 0 }) {
		return fmt.Sprintf("the call has returned and %d connections of the pool were not given back: "+
			"something keeps a connection, a transaction or rows (Acquire, Begin, Query) without releasing it%s", k.pool.Stat().AcquiredConns(), leftOut), nil
	}
	left := ""
	ended := eventually(ctx, forSessions, func() bool {
		err = k.judge.QueryRow(ctx, sqlLeft, k.app).Scan(&left)
		return err != nil || left == ""
	})
	if err != nil || ended {
		return "", err
	}
	return "the call has returned and something of it is left in the database: " + left + leftOut, nil
}

// waitForRoutines waits for goroutines that a call has left behind, so that what they write is counted. There may be some
// that stay for good, such as a server's: their kind is waited for once.
func (k *kit) waitForRoutines(ctx context.Context) {
	var left []string
	eventually(ctx, forRoutines, func() bool {
		left = k.routines()
		return len(left) == 0
	})
	for _, root := range left {
		k.staying[root] = true
	}
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

// routines returns the functions with which goroutines began that a call started and that are still there, other than the
// pool's own and those that are known to stay. A goroutine has the labels of the one that started it.
func (k *kit) routines() []string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil
	}
	var roots []string
	mark := fmt.Sprintf("%q:%q", label, k.app)
	for _, group := range strings.Split(b.String(), "\n\n") {
		labels, stack, _ := strings.Cut(group, "\n#\t")
		root := rootOf(stack)
		if strings.Contains(labels, mark) && !strings.Contains(root, "github.com/jackc/") && !k.staying[root] {
			roots = append(roots, root)
		}
	}
	return roots
}

// rootOf returns what the last line of a stack says: the function at the bottom and its place.
func rootOf(stack string) string {
	lines := strings.Split(strings.TrimSpace(stack), "\n")
	return lines[len(lines)-1]
}
