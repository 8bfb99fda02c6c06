package jobs

import (
	"testing"

	"github.com/txonce/txonce/toolcall"
)

func TestJob_J01_RunsOnceAndIsKept(t *testing.T) {
	t.Parallel()
	d := plainly("plain", nil)
	f := setup(t, nil, d)
	f.start(f.Runner)
	id := submit(f, d, in{Label: "a"}, nil)
	s := f.await(id, toolcall.StateSucceeded)
	got, err := d.Result(s)
	if err != nil || got.Label != "a" || s.Job.Attempts != 1 {
		t.Errorf("%+v, %v, %+v", got, err, s.Job)
	}
	f.effectsAre(map[string]int{"a": 1})
}
