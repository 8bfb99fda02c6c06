package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
)

// flock is the goroutines of one run. They carry a label, which each inherits from the one that starts it: what else goes on
// in the process, such as another test, does not count.
type flock struct{ name string }

const flockLabel = "txonce-soak"

// do runs the function, with all that it starts, in the flock.
func (f flock) do(ctx context.Context, run func(context.Context) error) (err error) {
	pprof.Do(ctx, pprof.Labels(flockLabel, f.name), func(ctx context.Context) { err = run(ctx) })
	return err
}

// flockKind is the head of goroutines that are at the same place, in the runtime's profile of them.
var flockKind = regexp.MustCompile(`(?m)^(\d+) @.*\n# labels: (.*)$`)

// operation is in the stack of a goroutine that makes an operation of the load, and not in those of goroutines that it starts.
const operation = "(*soak).load.func"

// members returns how many there are beside operations under way, and where they are.
func (f flock) members() (n int, stacks string) {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a buffer takes all
	label := fmt.Sprintf("%q:%q", flockLabel, f.name)
	for kind := range strings.SplitSeq(profile.String(), "\n\n") {
		head := flockKind.FindStringSubmatch(kind)
		if head == nil || !strings.Contains(head[2], label) || strings.Contains(kind, operation) {
			continue
		}
		count, _ := strconv.Atoi(head[1])
		n += count
		stacks += kind + "\n\n"
	}
	return n, stacks
}
