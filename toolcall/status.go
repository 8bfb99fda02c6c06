package toolcall

import "time"

// State says how far a call has come.
type State string

// The states of a call. A call that has ended keeps its state.
const (
	// StateNone: there is no record and nobody is running it. Either it was never made or it left nothing behind:
	// repeat the same call with the same key.
	StateNone State = "none"
	// StateRunning: somebody is running it.
	StateRunning State = "running"
	// StateSucceeded: it ended with the answer.
	StateSucceeded State = "succeeded"
	// StateFailed: it ended with the failure, and nothing was changed.
	StateFailed State = "failed"
	// StateUnknown: an attempt at an effect outside the database was cut off, and whether it had its effect is not known.
	StateUnknown State = "unknown"
	// StateExpired: it ended, and its answer is no longer kept.
	StateExpired State = "expired"
)

// Status is what can be said about a call without making it.
type Status struct {
	ID         ID
	Tool       string
	State      State
	Answer     []byte    // as it was first given, when State is StateSucceeded
	Failure    *Failure  // when State is StateFailed
	FinishedAt time.Time // by the database's clock, when it ended
}
