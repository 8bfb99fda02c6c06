package toolcall

import "time"

// State says how far a call or a job has come.
type State string

// The states of a call or a job. What has ended keeps its state.
const (
	// StateNone: there is no record and nobody is running it. Either it was never made or it left nothing behind:
	// repeat the same call with the same key.
	StateNone State = "none"
	// StateQueued: a job waits for a worker, for its time, or for its next attempt.
	StateQueued State = "queued"
	// StateRunning: somebody is running it.
	StateRunning State = "running"
	// StateSucceeded: it ended with the answer.
	StateSucceeded State = "succeeded"
	// StateFailed: it ended with the failure, and nothing was changed.
	StateFailed State = "failed"
	// StateCancelled: a job was cancelled before it had its effect. Nothing was changed.
	StateCancelled State = "cancelled"
	// StateUnknown: an attempt at an effect outside the database was cut off, and whether it had its effect is not known.
	StateUnknown State = "unknown"
	// StateExpired: it ended, and its answer is no longer kept.
	StateExpired State = "expired"
)

// Status is what can be said about a call or a job without making it.
type Status struct {
	ID         ID
	Tool       string // the tool of a call, the kind of a job
	State      State
	Answer     []byte    // as it was first given, when State is StateSucceeded
	Failure    *Failure  // when State is StateFailed
	FinishedAt time.Time // by the database's clock, when it ended

	Job *JobStatus // what a job has beyond that; nil for a call
}

// JobStatus is what can be said about a job in particular. All times are by the database's clock.
type JobStatus struct {
	SubmittedAt     time.Time
	StartedAt       time.Time // when the first attempt began; zero before
	NextAttemptAt   time.Time // while StateQueued: when the next attempt is due
	Deadline        time.Time // from then on no attempt commits; zero for none
	Attempts        int       // that have begun
	MaxAttempts     int       // with so many, the job fails
	CancelRequested bool      // somebody asked for it; a running attempt may still end first
	Progress        *Progress // what the running attempt reported last, if anything
}

// Progress is how far an attempt says it has come.
type Progress struct {
	Fraction float64   // 0 to 1
	Message  string    // for people and models; may be empty
	At       time.Time // by the database's clock
}
