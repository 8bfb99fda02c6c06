package intent

import (
	"context"
	"errors"
	"fmt"
)

// ErrOutcomeUnknown is what an [*OutcomeUnknownError] is: the call may have been done.
var ErrOutcomeUnknown = errors.New("intent: the outcome is not known")

// ErrExpired is wrapped by an [*OutcomeUnknownError] where the status tool says that the call has ended and its answer is no longer
// kept. Repeating it would do it again.
var ErrExpired = errors.New("intent: the call has ended, and its answer is no longer kept")

// OutcomeUnknownError is returned when the time is over, the caller has gone or the session has ended, and an attempt may have
// been done or is still running. Do not tell a model that the call failed: it would try another way, and do it twice.
type OutcomeUnknownError struct {
	Tool     string
	Key      string // with which the call can be repeated, and the status tool asked
	Attempts int
	Err      error // what was heard last; also the caller's context's error, if that has ended
}

// Error says that this is a question, and what to do about it.
func (e *OutcomeUnknownError) Error() string {
	next := "or repeat the same call in the same step, on a new session if this one has ended: it will not be done twice"
	if errors.Is(e.Err, ErrExpired) {
		next = "and do not repeat it: it would be done again"
	}
	return fmt.Sprintf("intent: it is not known whether %s was done (attempts: %d; the last: %v). This is a question, not a failure: "+
		"do not do it in another way. Look up what became of it, %s", e.Tool, e.Attempts, e.Err, next)
}

// Is makes it an [ErrOutcomeUnknown].
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns Err.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

// giveUp says what is known when there will be no other attempt.
func (c *call) giveUp(parent context.Context) error {
	err := c.last
	if gone := parent.Err(); gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w; before that: %w", gone, err)
	}
	if !c.unknown {
		return fmt.Errorf("intent: %s was not done (attempts: %d). The same call may be repeated, on a new session if this one has ended: %w", c.params.Name, c.attempts, err)
	}
	c.cfg.Logger.WarnContext(parent, "intent: the outcome of a call is not known", "tool", c.params.Name, "key", c.key, "attempts", c.attempts, "error", err)
	return &OutcomeUnknownError{Tool: c.params.Name, Key: c.key, Attempts: c.attempts, Err: err}
}
