package txidem

import (
	"context"
	"errors"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// Observer is told how each call ended: metrics, spans and audits hang on it. Observe is called once per call, when
// everything about it is decided, on the caller's goroutine: it must be quick and must not call the store.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Decision is how a call ended.
type Decision string

// The decisions. Exactly one is made per call.
const (
	DecidedRan         Decision = "ran"         // the handler ran and committed
	DecidedFailed      Decision = "failed"      // the handler failed and the failure was recorded
	DecidedReplayed    Decision = "replayed"    // an earlier answer or failure was given again
	DecidedOverQuota   Decision = "over_quota"  // the scope has too many live records
	DecidedInProgress  Decision = "in_progress" // another call of the identity was running
	DecidedKeyReused   Decision = "key_reused"  // the key belongs to other arguments
	DecidedExpired     Decision = "expired"     // refused, for its answer is no longer kept
	DecidedNotAllowed  Decision = "not_allowed" // Config.Authorize refused the replay
	DecidedReleased    Decision = "released"    // rolled back; the next call runs
	DecidedUnknown     Decision = "unknown"     // the outcome is not known
	DecidedRefused     Decision = "refused"     // a bad request; nothing was written
	DecidedUnprotected Decision = "unprotected" // ran without protection, by Policy.Disabled
)

// Way is how a call was made.
type Way string

// The ways to make a call, one for each function.
const (
	WayRun    Way = "run"
	WayTx     Way = "tx" // what was decided is final when the caller's transaction commits
	WayBatch  Way = "batch"
	WayLeased Way = "leased"
)

// Event describes a call that has ended.
type Event struct {
	Decision Decision
	Way      Way
	ID       toolcall.ID // zero where the request was refused
	Scope    string
	Tool     string
	Derived  bool  // the key was derived from the arguments
	Err      error // what the caller got, nil for an answer

	Runs        int           // how often the handler ran
	Takeover    bool          // it ran over an expired record, or took over a lease that had run out
	Resolved    bool          // the answer of COMMIT was lost and its outcome found out
	AnswerBytes int           // size of the answer, fresh or replayed
	Total       time.Duration // from the call to its end
	Handler     time.Duration // in the handler, all runs
	Commit      time.Duration // in the last round trip, all runs
}

func (e *Event) commit(start time.Time) { e.Commit += time.Since(start) }

// decisionOf names the end of a call from what it returned.
func decisionOf(out outcome, err error) Decision {
	_, failure := failureIn(err)
	switch {
	case out.replayed:
		return DecidedReplayed
	case err == nil:
		return DecidedRan
	case failure && !out.finishedAt.IsZero():
		return DecidedFailed
	}
	for _, d := range [...]struct {
		err      error
		decision Decision
	}{
		{ErrInProgress, DecidedInProgress},
		{ErrKeyReused, DecidedKeyReused},
		{ErrExpired, DecidedExpired},
		{ErrNotAllowed, DecidedNotAllowed},
		{ErrOutcomeUnknown, DecidedUnknown},
		{ErrBlocked, DecidedUnknown},
		{ErrQuota, DecidedOverQuota},
		{ErrOtherWay, DecidedRefused},
		{ErrRecord, DecidedRefused},
		{ErrTxNotOpen, DecidedRefused},
		{ErrBatchSQL, DecidedRefused},
		{ErrScope, DecidedRefused},
		{ErrTool, DecidedRefused},
		{ErrKey, DecidedRefused},
		{ErrArgs, DecidedRefused},
		{ErrPolicy, DecidedRefused},
		{ErrNested, DecidedRefused},
	} {
		if errors.Is(err, d.err) {
			return d.decision
		}
	}
	return DecidedReleased
}
