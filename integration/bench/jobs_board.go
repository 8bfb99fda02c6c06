package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// board knows the jobs of one side that are under way, and hears of their ends.
type board struct {
	last    atomic.Int64 // number of a job
	tickets sync.Map     // by number, until the work begins
}

// ticket is one job under way.
type ticket struct {
	number int64
	begins time.Time   // the work, by the clock of this process
	ended  func(error) // is told when the work has ended
}

func (b *board) issue(ended func(error)) *ticket {
	t := &ticket{number: b.last.Add(1), ended: ended}
	b.tickets.Store(t.number, t)
	return t
}

// seat is where the work says which job it is at.
type seat struct{ ticket *ticket }

type seatKey struct{}

// watch is put around the work of both sides, inside River: behind it, the transaction of the effect has committed. A job
// that is worked again says nothing here; it leaves an effect too many.
func (b *board) watch(ctx context.Context, _ *rivertype.JobRow, work func(context.Context) error) error {
	s := &seat{}
	err := work(context.WithValue(ctx, seatKey{}, s))
	if s.ticket != nil {
		s.ticket.ended(err)
	}
	return err
}

// begins is what the work of both sides does first.
func (b *board) begins(ctx context.Context, number int64) {
	now := time.Now()
	t, waiting := b.tickets.LoadAndDelete(number)
	if s, watched := ctx.Value(seatKey{}).(*seat); watched && waiting {
		s.ticket = t.(*ticket)
		s.ticket.begins = now
	}
}
