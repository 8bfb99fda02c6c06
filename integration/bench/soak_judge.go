package main

import (
	"errors"
	"fmt"
	"time"
)

// The bounds: from the samples behind the warm-up to those at the end, and for all of the run.
const (
	mostGrowth     = 1.25 // of the memory of the process, times
	mostGoroutines = 25   // more; a call, an attempt or a delivery has some while it is under way
	mostSessions   = 4    // more; a store and a runner open up to two each beside the pool, and close them again
	leastCalls     = 0.9  // of the asked rate
	// What a table had at most in the second third of the run may grow in the last one, as its pages are filled anew.
	mostTable      = 1.25
	mostTableBytes = 1 << 20
	// ratedFrom is the least time after which the rate is judged: in a few seconds a stall of the machine is a great part.
	ratedFrom = time.Minute
	// judgedFrom is the least time after which memory and tables are judged: before that, both still grow to what they need.
	judgedFrom = 10 * time.Minute
)

// verdict is one thing that was looked at.
type verdict struct {
	text string
	good bool
}

// verdicts are all of them.
func (s *soak) verdicts() []verdict {
	start, end := s.start(), s.end()
	failures, first := s.books.failures()
	all := []verdict{
		{fmt.Sprintf("errors: %d%s, the goal is none", failures, because(first)), failures == 0},
		{fmt.Sprintf("calls: %.1f %% of the asked rate, the goal is %.0f %% or more", 100*s.share(), 100*leastCalls), s.share() >= leastCalls || s.options.time < ratedFrom},
		{fmt.Sprintf("goroutines: %d, then %d, the goal is at most %d more", start.goroutines, end.goroutines, mostGoroutines), end.goroutines <= start.goroutines+mostGoroutines},
		{fmt.Sprintf("sessions: %d, then %d, the goal is at most %d more", start.sessions, end.sessions, mostSessions), max(end.sessions-start.sessions, end.conns-start.conns) <= mostSessions},
		{"left when all was closed: " + orNothing(s.left), s.left == ""},
	}
	if s.options.time >= judgedFrom {
		grown := s.grownTable()
		memory := verdict{"memory of the process: not known on this system; run it on Linux", false}
		if grew := s.growth(); grew > 0 {
			memory = verdict{fmt.Sprintf("memory of the process: %.2f times that behind the warm-up, the goal is %.2f or less", grew, mostGrowth), grew <= mostGrowth}
		}
		all = append(all, memory,
			verdict{fmt.Sprintf("tables that grew by more than a quarter and 1 MB from the second third to the last: %s", orNothing(grown)), grown == ""})
	}
	return all
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf(" (the first: %v)", err)
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// judge returns what is not good.
func judge(all []verdict) error {
	var errs []error
	for _, v := range all {
		if !v.good {
			errs = append(errs, errors.New(v.text))
		}
	}
	return errors.Join(errs...)
}

// share is that of the asked rate which ended well.
func (s *soak) share() float64 {
	return float64(s.books.done.Load()) / (float64(s.options.rate) * s.options.time.Seconds())
}

// growth is that of the memory, or 0 where it is not known.
func (s *soak) growth() float64 {
	start := s.start().rss
	if start == 0 {
		return 0
	}
	return float64(s.end().rss) / float64(start)
}

// grownTable names a table that has not come to a size that it keeps.
func (s *soak) grownTable() string {
	middle, last := mostBytes(s.part(1, 3, 3)), mostBytes(s.part(2, 3, 3))
	for name, bytes := range last {
		if float64(bytes) > mostTable*float64(middle[name])+mostTableBytes {
			return fmt.Sprintf("%s, from %.1f to %.1f MB", name, inMB(middle[name]), inMB(bytes))
		}
	}
	return ""
}

// mostBytes returns the largest size of each table.
func mostBytes(samples []soakSample) map[string]int64 {
	most := make(map[string]int64)
	for _, s := range samples {
		for _, t := range s.tables {
			most[t.name] = max(most[t.name], t.bytes())
		}
	}
	return most
}
