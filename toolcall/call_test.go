package toolcall_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txonce/txonce/toolcall"
)

func TestCall_J01_HoldIsForTheHandler(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		keep time.Duration
		want bool
	}{"with a record": {time.Second, true}, "without one": {0, false}} {
		call := &toolcall.Call{Keep: c.keep}
		if call.Held() {
			t.Errorf("%s: it is held in the beginning", label)
		}
		for range 2 {
			if err := call.Hold(); err != nil || call.Held() != c.want {
				t.Errorf("%s: Hold gives %v, held is %v", label, err, call.Held())
			}
		}
		call.Finish(nil)
		if err := call.Hold(); !errors.Is(err, toolcall.ErrCallOver) || call.Held() != c.want {
			t.Errorf("%s: afterwards, Hold gives %v, held is %v", label, err, call.Held())
		}
	}
	late := &toolcall.Call{Keep: time.Second}
	late.Finish(nil)
	if err := late.Hold(); !errors.Is(err, toolcall.ErrCallOver) || late.Held() {
		t.Errorf("too late: Hold gives %v, held is %v", err, late.Held())
	}
}

// TestCall_J01_HoldAndFinishAgree: whoever was told that the record is held finds it held, whenever the handler returned.
func TestCall_J01_HoldAndFinishAgree(t *testing.T) {
	t.Parallel()
	for range 1000 {
		call := &toolcall.Call{Keep: time.Second}
		var told atomic.Bool
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if call.Hold() == nil {
					told.Store(true)
				}
			})
		}
		call.Finish(nil)
		held := call.Held()
		all.Wait()
		if told.Load() != held || call.Held() != held {
			t.Fatalf("told %v, held %v when the handler returned, %v later", told.Load(), held, call.Held())
		}
	}
}
