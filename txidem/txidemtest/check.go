package txidemtest

import (
	"context"
	"fmt"
)

// Check is [Run] for those who have no *testing.T, or want to look at the findings. It returns at most one for each
// point. test is the name of the test that calls it (t.Name()), which is started again in the processes that are killed;
// with "" no process is killed. database returns the URL of a migrated database, and is not called in those processes: there
// Check does not return. The error says that the check could not be made.
func Check(ctx context.Context, test string, database func() string, tool Tool) ([]Finding, error) {
	var all []Finding
	err := check(ctx, test, database, tool, func(name string, do part) error {
		result, err := do(ctx)
		if result.problem != "" {
			all = append(all, Finding{Point: name, Problem: result.problem})
		}
		return err
	})
	return all, err
}

// part is a part of a check.
type part func(context.Context) (result, error)

// result is what it found.
type result struct {
	problem string // or nothing
	missed  bool   // the call took another way this time, and did not come to the point
}

// step makes one part of a check.
type step func(name string, do part) error

// plain is a part that has no point to miss.
func plain(do func(context.Context) (string, error)) part {
	return func(ctx context.Context) (result, error) {
		problem, err := do(ctx)
		return result{problem: problem}, err
	}
}

// check makes all parts of a check, one after the other.
func check(ctx context.Context, test string, database func() string, tool Tool, each step) error {
	tool, err := tool.withDefaults()
	if err != nil {
		return err
	}
	if spec, ok := specOf(); ok {
		if spec.Test == test && spec.Tool == tool.Name {
			spec.die(ctx, tool) // does not return
		}
		return nil
	}
	k, err := open(ctx, database(), test, tool)
	if err != nil {
		return err
	}
	defer k.close()
	if err := each("two calls in a row", plain(k.inARow)); err != nil {
		return err
	}
	for _, p := range k.parts() {
		if k.stuck.Load() {
			return nil
		}
		if err := each(p.name, p.do); err != nil {
			return err
		}
	}
	return nil
}

// namedPart is a part with its name.
type namedPart struct {
	name string
	do   part
}

// parts returns what comes behind the calls without faults: nothing, if those have not shown the shape of a call.
func (k *kit) parts() []namedPart {
	if len(k.shape.turns) == 0 {
		return nil
	}
	parts := []namedPart{{"two calls at once", plain(k.atOnce)}}
	for _, p := range k.shape.points(k.test != "") {
		parts = append(parts, namedPart{p.name, func(ctx context.Context) (result, error) {
			problem, err := k.breakAt(ctx, p)
			return result{problem, k.missed}, err
		}})
	}
	return append(parts, namedPart{"in the end", plain(k.recount)})
}

// recount counts all effects again: what a goroutine wrote late is found here.
func (k *kit) recount(ctx context.Context) (string, error) {
	if problem, err := k.settle(ctx); problem != "" || err != nil {
		return problem, err
	}
	for intent, want := range k.counted {
		got, err := k.count(ctx, intent)
		if err != nil {
			return "", err
		}
		if got != want {
			return fmt.Sprintf("the query counts %d effects of intent %d, and counted %d when its calls were over: "+
				"a goroutine outlives the call and writes%s", got, intent, want, k.stage.hints()), nil
		}
	}
	return "", nil
}
