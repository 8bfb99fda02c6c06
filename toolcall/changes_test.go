package toolcall_test

import (
	"sync"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

func TestChanges_S03_WakesAllWhoWait(t *testing.T) {
	t.Parallel()
	var c toolcall.Changes
	c.Notify() // nobody waits
	first := c.Changed()
	select {
	case <-first:
		t.Fatal("what was before is no change")
	default:
	}
	var waiters sync.WaitGroup
	for range 100 {
		changed := c.Changed()
		waiters.Go(func() { <-changed })
	}
	c.Notify()
	waiters.Wait()
	<-first
	select {
	case <-c.Changed():
		t.Fatal("the next change has not come")
	default:
	}
}
