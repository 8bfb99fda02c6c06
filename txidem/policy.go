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
	// (40001, 40P01): 1 to 100. Defaults to 3.
	Attempts int

	// InlineAnswer is the size in bytes up to which an answer is read together with its record. A larger one stays behind
	// a pointer in the table (Postgres' TOAST) and costs its replay one more round trip. At most 16 MiB. Defaults to 64 KiB.
	InlineAnswer int

	// OnExpired says what becomes of a call whose record has expired. Defaults to Rerun.
	OnExpired OnExpired

	// Lease is how long a claim of RunLeased outlives its last renewal, and so how long a call that was killed keeps others
	// out. Defaults to 30 seconds.
	Lease time.Duration

	// Renew is the time between two renewals of a lease, from 10 ms to half of Lease. Defaults to a third of Lease.
	Renew time.Duration

	// OnLeaseLost says what RunLeased does with a call whose last attempt was cut off, where it is not given a function
	// that can ask. Defaults to Block.
	OnLeaseLost OnLeaseLost

	// Quota is how many live records a scope may have, about: with as many, a call that would make one more is refused with
	// ErrQuota, and replays go on. Records are counted at most once a second per scope and process, so a scope may exceed
	// it by what its processes do in a second. It needs an index, which calls without a quota should not pay for, and answers
	// ErrPolicy without it: create index concurrently call_scope_idx on txonce.call (scope, expires_at), made by the table's
	// owner. Counting is a part of the transaction in RunTx: in SERIALIZABLE ones it may cost unrelated calls of a scope a
	// 40001, once a second. At most 1,000,000. Defaults to 0, no limit; a request cannot lift the store's quota, it can only name another one.
	Quota int

	// Disabled runs the handler without protection: no key, no record, no replay, a plain transaction. It is the switch
	// for an emergency; each such call is logged and observed as unprotected. Defaults to false. A request cannot switch
	// the protection on again where the store's policy has it off.
	Disabled bool

	// MaxAnswer is the size in bytes above which an encoded answer or failure of the handler fails the call before it commits.
	// Defaults to 16 MiB, the largest value allowed.
	MaxAnswer int
}

// OnExpired says what becomes of a call whose record has expired.
type OnExpired int

const (
	// Rerun runs the call again: after the retention, the same key is a new intent.
	Rerun OnExpired = iota + 1
	// Refuse answers ErrExpired instead, for calls that must never run twice. The record stays, without its answer, until
	// Store.Forget removes it: some 300 bytes each.
	Refuse
)

// OnLeaseLost says what becomes of a leased call whose last attempt was cut off: killed, cancelled, or ended by an error
// that leaves open what it did.
type OnLeaseLost int

const (
	// Block answers ErrBlocked until somebody finds out what happened, and gives the answer by an ask or removes the claim
	// with Store.Forget (see [ErrBlocked] for which of the two), or until the retention is over, which counts from the end of
	// the last lease. With OnExpired = Refuse it lasts for good.
	Block OnLeaseLost = iota + 1
	// RerunLost runs the call again, with the same downstream key: for effects that the other system recognises by it.
	RerunLost
)

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
		InlineAnswer:  64 << 10,
		OnExpired:     Rerun,
		MaxAnswer:     maxAnswer,
		Lease:         30 * time.Second,
		OnLeaseLost:   Block,
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
		InlineAnswer:  first(p.InlineAnswer, base.InlineAnswer),
		OnExpired:     first(p.OnExpired, base.OnExpired),
		Disabled:      p.Disabled || base.Disabled,
		MaxAnswer:     first(p.MaxAnswer, base.MaxAnswer),
		Lease:         first(p.Lease, base.Lease),
		Renew:         first(p.Renew, base.Renew),
		OnLeaseLost:   first(p.OnLeaseLost, base.OnLeaseLost),
		Quota:         first(p.Quota, base.Quota),
	}
}

func first[T comparable](value, fallback T) T {
	var zero T
	if value != zero {
		return value
	}
	return fallback
}

// validate names the field that is bad. The caller puts the package's name in front.
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
		{"Lease", p.Lease, 100 * time.Millisecond, day},
	} {
		if d.value < d.min || d.value > d.max {
			return fmt.Errorf("%s is %v; it must be between %v and %v", "Policy."+d.name, d.value, d.min, d.max)
		}
	}
	switch {
	case p.Attempts < 1 || p.Attempts > 100:
		return fmt.Errorf("Policy.Attempts is %d; it must be between 1 and 100", p.Attempts)
	case p.OnExpired != Rerun && p.OnExpired != Refuse:
		return fmt.Errorf("Policy.OnExpired is %d; use Rerun or Refuse", p.OnExpired)
	case p.renewal() < 10*time.Millisecond || p.renewal() > p.Lease/2:
		return fmt.Errorf("Policy.Renew is %v; it must be at least 10ms and at most half of Policy.Lease, which is %v", p.Renew, p.Lease)
	case p.OnLeaseLost != Block && p.OnLeaseLost != RerunLost:
		return fmt.Errorf("Policy.OnLeaseLost is %d; use Block or RerunLost", p.OnLeaseLost)
	case p.Quota < 0 || p.Quota > maxQuota:
		return fmt.Errorf("Policy.Quota is %d; it must be between 0 and %d", p.Quota, maxQuota)
	case p.InlineAnswer < 1 || p.InlineAnswer > maxAnswer:
		return fmt.Errorf("Policy.InlineAnswer is %d; it must be between 1 and %d bytes", p.InlineAnswer, maxAnswer)
	case p.MaxAnswer < 1 || p.MaxAnswer > maxAnswer:
		return fmt.Errorf("Policy.MaxAnswer is %d; it must be between 1 and %d bytes", p.MaxAnswer, maxAnswer)
	case !readsFreshSnapshots(p.Isolation) && p.Isolation != pgx.RepeatableRead && p.Isolation != pgx.Serializable:
		return fmt.Errorf("Policy.Isolation is %q; use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", p.Isolation)
	}
	return nil
}

// renewal is the time between two renewals of a lease.
func (p *Policy) renewal() time.Duration { return first(p.Renew, p.Lease/3) }

// maxQuota bounds what counting a scope's records may cost.
const maxQuota = 1_000_000

// readsFreshSnapshots reports whether each statement of a transaction sees what was committed before it.
func readsFreshSnapshots(level pgx.TxIsoLevel) bool {
	return level == pgx.ReadCommitted || level == pgx.ReadUncommitted
}
