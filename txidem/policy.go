package txidem

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// NoWait as Policy.Wait makes a duplicate of a running call answer at once.
const NoWait time.Duration = -1

// Policy says how calls of one tool are protected. The zero value of a field means its default.
type Policy struct {
	// Window is how long a call without a key is remembered: as long as a retry of it may arrive, and shorter than the
	// time after which a caller means the same arguments as a new intent. Defaults to 10 minutes.
	Window time.Duration

	// Retention is how long a call with an explicit key is remembered, counted from its end. A retry after that runs
	// again. Defaults to 24 hours.
	Retention time.Duration

	// Wait is how long a duplicate of a running call waits for its answer, without holding a connection, before it
	// answers ErrInProgress. NoWait (any negative value) means not at all. Defaults to 2 seconds.
	Wait time.Duration

	// IdleInTx is how long a handler may go without SQL inside its transaction, and so how long the claim of a client
	// that vanished outlives it. Defaults to 30 seconds.
	IdleInTx time.Duration

	// CommitTimeout bounds the last round trip of a call, which does not end with the caller's context: once the
	// handler has returned, the call commits. Defaults to 10 seconds.
	CommitTimeout time.Duration

	// Isolation is the isolation level of the transaction. Defaults to pgx.ReadCommitted.
	Isolation pgx.TxIsoLevel

	// Attempts is how often the handler may run, each time in a new transaction, when Postgres asks for a repeat
	// (40001, 40P01). Defaults to 3.
	Attempts int

	// MaxAnswer is the size in bytes above which an encoded answer fails the call before it commits. Defaults to
	// 16 MiB, the largest value allowed.
	MaxAnswer int
}

const maxAnswer = 16 << 20

func defaultPolicy() Policy {
	return Policy{
		Window:        10 * time.Minute,
		Retention:     24 * time.Hour,
		Wait:          2 * time.Second,
		IdleInTx:      30 * time.Second,
		CommitTimeout: 10 * time.Second,
		Isolation:     pgx.ReadCommitted,
		Attempts:      3,
		MaxAnswer:     maxAnswer,
	}
}

// over returns p with base where p is silent.
func (p *Policy) over(base Policy) Policy {
	if p == nil {
		return base
	}
	return Policy{
		Window:        first(p.Window, base.Window),
		Retention:     first(p.Retention, base.Retention),
		Wait:          first(p.Wait, base.Wait),
		IdleInTx:      first(p.IdleInTx, base.IdleInTx),
		CommitTimeout: first(p.CommitTimeout, base.CommitTimeout),
		Isolation:     first(p.Isolation, base.Isolation),
		Attempts:      first(p.Attempts, base.Attempts),
		MaxAnswer:     first(p.MaxAnswer, base.MaxAnswer),
	}
}

func first[T comparable](value, fallback T) T {
	var zero T
	if value != zero {
		return value
	}
	return fallback
}

func (p *Policy) validate() error {
	const day = 24 * time.Hour
	for _, d := range [...]struct {
		name            string
		value, min, max time.Duration
	}{
		{"Window", p.Window, time.Millisecond, 3660 * day},
		{"Retention", p.Retention, time.Millisecond, 3660 * day},
		{"IdleInTx", p.IdleInTx, 10 * time.Millisecond, day},
		{"CommitTimeout", p.CommitTimeout, time.Millisecond, time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			return fmt.Errorf("txidem: Policy.%s is %v; it must be between %v and %v", d.name, d.value, d.min, d.max)
		}
	}
	switch {
	case p.Attempts < 1 || p.Attempts > 100:
		return fmt.Errorf("txidem: Policy.Attempts is %d; it must be between 1 and 100", p.Attempts)
	case p.MaxAnswer < 1 || p.MaxAnswer > maxAnswer:
		return fmt.Errorf("txidem: Policy.MaxAnswer is %d; it must be between 1 and %d bytes", p.MaxAnswer, maxAnswer)
	case !readsFreshSnapshots(p.Isolation) && p.Isolation != pgx.RepeatableRead && p.Isolation != pgx.Serializable:
		return fmt.Errorf("txidem: Policy.Isolation is %q; use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", p.Isolation)
	}
	return nil
}

// readsFreshSnapshots reports whether each statement of a transaction sees what was committed before it.
func readsFreshSnapshots(level pgx.TxIsoLevel) bool {
	return level == pgx.ReadCommitted || level == pgx.ReadUncommitted
}
