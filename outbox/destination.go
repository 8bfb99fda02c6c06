package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// Destination is where messages go. The zero value of a field means its default.
type Destination struct {
	// Name names it in messages and in the tables: 1 to 63 letters, digits, dots, hyphens and underscores. Messages that wait
	// belong to it, so do not rename it while some do.
	Name string

	// Publisher delivers the messages. Without one this process publishes to the destination and leaves the delivery to others.
	Publisher Publisher

	// Timeout bounds one attempt. From 100 ms to 10 minutes. A relay that dies keeps what it was delivering from the others for
	// this time and ten seconds. Defaults to 15 seconds.
	Timeout time.Duration

	// Retry is how long to wait behind each attempt that was not taken, at most. Defaults to 1 s, 5 s, 30 s, 2 min, 10 min, 30 min,
	// and six times 2 h: 13 attempts in 6 h 20 min on average, in 12 h 43 min at most.
	Retry Schedule

	// Concurrency is how many attempts a relay makes at a time. From 1 to 1,000. Defaults to 16.
	Concurrency int

	// Rate bounds how many attempts all relays together begin in a second, in bursts of up to Rate (and at least 1). Up to 10,000. Defaults to
	// no bound.
	Rate float64

	// KeyLifetime is how long the receiver remembers an idempotency key: an attempt that got no answer is not repeated after
	// that, for it might be done twice. Probe is asked then. Defaults to no end.
	KeyLifetime time.Duration

	// Probe asks the receiver what became of a message whose attempt got no answer and whose key it may have forgotten: Delivered,
	// Rejected (it was not done, and is not to be), or Retry (it was not done; send it again). With Unanswered or an error it is
	// asked again as Retry says; in the end the message is unknown. Defaults to nobody to ask.
	Probe func(ctx context.Context, d Delivery) (Outcome, error)

	// OnDead says what becomes of the messages behind one that failed or is unknown, if they have its ordering key. Defaults to BlockKey.
	OnDead DeadPolicy

	// OnOutcome is called when a message has ended, in a transaction that commits with the note that it was called: what it
	// writes through tx happens once for each end of a message, however often it is called. An error rolls back, and it is
	// called again later, behind pauses of up to ten minutes, until Keep or KeepDead is over; the message is not sent again. Have nothing
	// wait for the message itself there, such as Redrive: its row is held. Defaults to nobody who wants to know.
	OnOutcome func(ctx context.Context, tx pgx.Tx, fate Fate) error

	// Keep is how long a message that was delivered, cancelled or has expired is kept, and KeepDead one that failed or is unknown.
	// From 1 minute to ten years. They default to 7 and 30 days.
	Keep, KeepDead time.Duration
}

// DeadPolicy says what becomes of the messages behind one that could not be delivered.
type DeadPolicy int

const (
	// BlockKey: they wait until an operator has the message sent again (Redrive) or lets them pass (Skip).
	BlockKey DeadPolicy = iota
	// SkipKey: they go on.
	SkipKey
)

// Schedule is how long to wait behind the first, the second and each further attempt that was not taken. The wait is a random
// one between nothing and that (full jitter), or longer if the receiver says so. A message has one attempt more than the
// schedule has waits. At most 100 waits of up to a year.
type Schedule []time.Duration

// DefaultSchedule is a copy of what Destination.Retry defaults to.
func DefaultSchedule() Schedule {
	const h = time.Hour
	return Schedule{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, 2 * h, 2 * h, 2 * h, 2 * h, 2 * h, 2 * h}
}

// attempts is how many there are in all.
func (s Schedule) attempts() int { return len(s) + 1 }

// wait is how long to wait behind the attempt of that number.
func (s Schedule) wait(attempt int) time.Duration {
	if attempt < 1 || attempt > len(s) || s[attempt-1] <= 0 {
		return 0
	}
	return rand.N(s[attempt-1])
}

const (
	// margin is what a lease has beyond the time of an attempt: for the way to the attempt and for settling it.
	margin    = 10 * time.Second
	longestOf = 10 * 366 * 24 * time.Hour
)

func (d *Destination) lease() time.Duration { return d.Timeout + margin }

// withDefaults returns a copy that is complete.
func (d Destination) withDefaults() (*Destination, error) {
	d.Timeout = or(d.Timeout, 15*time.Second)
	d.Concurrency = or(d.Concurrency, 16)
	d.Keep, d.KeepDead = or(d.Keep, 7*24*time.Hour), or(d.KeepDead, 30*24*time.Hour)
	if d.Retry == nil {
		d.Retry = DefaultSchedule()
	}
	if bad := d.wrong(); bad != "" {
		return nil, fmt.Errorf("outbox: destination %.80q: %s", d.Name, bad)
	}
	return &d, nil
}

// wrong says what is wrong with it, or nothing.
func (d *Destination) wrong() string {
	switch {
	case !validName(d.Name):
		return "Name must have 1 to 63 letters, digits, dots, hyphens and underscores"
	case d.Timeout < 100*time.Millisecond || d.Timeout > 10*time.Minute:
		return fmt.Sprintf("Timeout is %v; use 100ms to 10m", d.Timeout)
	case len(d.Retry) > 100:
		return fmt.Sprintf("Retry has %d waits; use at most 100", len(d.Retry))
	case d.Concurrency < 1 || d.Concurrency > 1000:
		return fmt.Sprintf("Concurrency is %d; use 1 to 1000", d.Concurrency)
	case !(d.Rate >= 0 && d.Rate <= 10_000): // NaN too
		return fmt.Sprintf("Rate is %v; use 0 for none, or up to 10000 in a second", d.Rate)
	case d.KeyLifetime != 0 && d.KeyLifetime <= d.Timeout:
		return fmt.Sprintf("KeyLifetime is %v; use more than Timeout, or 0 for no end", d.KeyLifetime)
	case d.OnDead != BlockKey && d.OnDead != SkipKey:
		return fmt.Sprintf("OnDead is %d; use BlockKey or SkipKey", d.OnDead)
	case d.Keep < time.Minute || d.Keep > longestOf || d.KeepDead < time.Minute || d.KeepDead > longestOf:
		return fmt.Sprintf("Keep is %v and KeepDead %v; use 1m to ten years", d.Keep, d.KeepDead)
	}
	for _, wait := range d.Retry {
		if wait < 0 || wait > longest {
			return fmt.Sprintf("Retry has a wait of %v; use 0 to a year", wait)
		}
	}
	return ""
}

func validName(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	for _, r := range name {
		if !letter(r) && r != '.' && r != '-' && r != '_' {
			return false
		}
	}
	return true
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
