package toolcall

import "context"

// Ask names what somebody wants to know about: a call or a job by its id, and who asks.
type Ask struct {
	Scope string
	ID    ID
}

// Source knows how far calls or jobs have come. The store of calls is one, the runner of jobs another.
type Source interface {
	// Statuses answers each ask, in their order, in as few round trips as it takes for all of them. What the source has
	// nothing of under this id and scope is StateNone: an id that never was and one of another scope look the same, in
	// what is said and in the time it takes. It delays nobody.
	Statuses(ctx context.Context, asks []Ask) ([]Status, error)

	// Changed returns a channel that is closed when something that the source knows of has changed in this process. What
	// changes in others has to be looked for. See [Changes].
	Changed() <-chan struct{}
}
