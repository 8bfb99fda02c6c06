package outboxtest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mark is the label of the goroutines of a test and of all that they start, and so tells them from those of tests beside it.
const mark = "outboxtest"

// watch runs a test, closes its harness, and fails it if a goroutine is left that the test has started.
func watch(t *testing.T, closeHarness func(), test func()) {
	name := t.Name()
	t.Cleanup(func() {
		if t.Failed() { // one that does not end would be waited for again
			return
		}
		if left := leftOver(name); left != "" {
			t.Errorf("goroutines of the publisher are left:\n%s", left)
		}
	})
	if closeHarness != nil {
		t.Cleanup(closeHarness)
	}
	pprof.Do(context.Background(), pprof.Labels(mark, name), func(context.Context) { test() })
}

// leftOver waits until no goroutine has the mark, and returns those that still have it after a minute.
func leftOver(name string) string {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		left := marked(name)
		if left == "" || time.Now().After(deadline) {
			return left
		}
	}
}

// marked reads the stacks of goroutines that have the mark.
func marked(name string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	var left []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, strconv.Quote(mark)+":"+strconv.Quote(name)) {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
