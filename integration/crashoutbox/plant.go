package main

// plant is a mistake that the processes make on purpose: a count that cannot go wrong counts nothing.
type plant string

const (
	noPlant          plant = ""
	deleteFirst      plant = "delete-first"       // relays delete a message before they deliver it
	noLock           plant = "no-lock"            // messages are numbered as they are written, without the lock of their ordering key
	keyPerAttempt    plant = "key-per-attempt"    // each attempt brings an idempotency key of its own
	publishOutsideTx plant = "publish-outside-tx" // messages are published on another connection
)

func plants() []plant { return []plant{deleteFirst, noLock, keyPerAttempt, publishOutsideTx} }

// reaches reports whether processes with this mistake come by the point. Plain relays have other turns than ours.
func (p plant) reaches(at point) bool {
	switch at {
	case beforeBegun, afterSent, afterAnswered, publishQueued, publishUnsent, publishPart, publishedSent, publishedUntold:
		return true
	}
	return p != deleteFirst
}

// stops reports whether relays are stopped: others must take over then.
func (p plant) stops() bool { return p != deleteFirst }
