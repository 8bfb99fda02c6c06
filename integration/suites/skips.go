package main

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// skips are the skipped tests of all runs, in the order in which they came up.
type skips struct {
	order []string
	ways  map[string][]string // by test and reason
}

func (all *skips) add(where string, r *report) {
	if all.ways == nil {
		all.ways = make(map[string][]string)
	}
	for _, s := range r.packages {
		for _, k := range s.skips {
			text := path.Base(s.name) + " " + k.test + ": " + k.reason
			if all.ways[text] == nil {
				all.order = append(all.order, text)
			}
			all.ways[text] = append(all.ways[text], where)
		}
	}
}

func (all *skips) print(out io.Writer) {
	fmt.Fprintf(out, "suites: %d tests were skipped somewhere\n", len(all.order))
	for _, text := range all.order {
		fmt.Fprintf(out, "  %s (%s)\n", text, strings.Join(all.ways[text], "; "))
	}
}
