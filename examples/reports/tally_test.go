package main

import (
	"errors"
	"testing"

	"github.com/txonce/txonce/statustool"
	"github.com/txonce/txonce/toolcall"
)

func TestCount_J02_WhatIsMissingOrDoubleIsWrong(t *testing.T) {
	t.Parallel()
	told := func(state toolcall.State) *errand {
		return &errand{order: Order{Order: "R-1"}, told: statustool.Report{State: state}}
	}
	for label, c := range map[string]struct {
		errand     *errand
		jobs, rows int
		want       string
		wrong      int
	}{
		"done":                    {told(toolcall.StateSucceeded), 1, 1, "reports: ordered=1 calls=2 jobs=1 done=1 cancelled=0 duplicates=0", 0},
		"cancelled":               {told(toolcall.StateCancelled), 1, 0, "reports: ordered=1 calls=2 jobs=1 done=0 cancelled=1 duplicates=0", 0},
		"double":                  {told(toolcall.StateSucceeded), 1, 3, "reports: ordered=1 calls=2 jobs=1 done=1 cancelled=0 duplicates=2", 1},
		"two jobs":                {told(toolcall.StateSucceeded), 2, 1, "reports: ordered=1 calls=2 jobs=2 done=1 cancelled=0 duplicates=1", 1},
		"done, and not there":     {told(toolcall.StateSucceeded), 1, 0, "reports: ordered=1 calls=2 jobs=1 done=0 cancelled=0 duplicates=0", 1},
		"cancelled, and there":    {told(toolcall.StateCancelled), 1, 1, "reports: ordered=1 calls=2 jobs=1 done=0 cancelled=0 duplicates=0", 1},
		"failed":                  {told(toolcall.StateFailed), 1, 0, "reports: ordered=1 calls=2 jobs=1 done=0 cancelled=0 duplicates=0", 1},
		"never heard of, no job":  {&errand{err: errors.New("time is up")}, 0, 0, "reports: ordered=1 calls=2 jobs=0 done=0 cancelled=0 duplicates=0", 1},
		"it still runs, given up": {&errand{told: statustool.Report{State: toolcall.StateRunning}, err: errors.New("time is up")}, 1, 0, "reports: ordered=1 calls=2 jobs=1 done=0 cancelled=0 duplicates=0", 1},
	} {
		got := count([]*errand{c.errand}, 2, c.jobs, map[string]int{c.errand.order.Order: c.rows})
		if got.String() != c.want || len(got.problems) != c.wrong {
			t.Errorf("%s: %s, %q; want %s, %d problems", label, got, got.problems, c.want, c.wrong)
		}
	}
}
