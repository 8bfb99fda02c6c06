package main

import "time"

// step is a part of a message's life, from the call that publishes it until the result of its last attempt is written.
type step string

const (
	atPublish   step = "publish"   // of a server: the message is in a transaction that is not committed
	atPublished step = "published" // of a server: COMMIT is written, and the caller has no answer
	atIdle      step = "idle"      // of a relay that delivers nothing
	atClaimed   step = "claimed"   // messages are claimed, or may be, and no attempt of them has begun
	atBefore    step = "before"    // an attempt has begun, nothing is sent
	atAfter     step = "after"     // the receiver was sent the message, the result is not written
	atSettling  step = "settling"  // the result is being written
)

// steps returns all steps, in the order of a message.
func steps() []step {
	return []step{atPublish, atPublished, atIdle, atClaimed, atBefore, atAfter, atSettling}
}

// stepsOf returns the steps at which processes of the role die.
func stepsOf(r role) []step {
	if r == server {
		return []step{atPublish, atPublished}
	}
	return []step{atIdle, atClaimed, atBefore, atAfter, atSettling}
}

// point is an exact place in a step.
type point string

const (
	publishQueued   point = "publish/queued"   // PublishTx has returned, the handler has not
	publishUnsent   point = "publish/unsent"   // the call's last batch is ready, nothing of it is written
	publishPart     point = "publish/part"     // a part of it is written, COMMIT is not
	publishedSent   point = "published/sent"   // all of it is written, nothing of its answer is read
	publishedUntold point = "published/untold" // the call has returned, its caller has heard nothing
	idleUnsent      point = "idle/unsent"      // a look is ready, nothing of it is written
	claimedSent     point = "claimed/sent"     // a look is written, nothing of its answer is read
	claimedRead     point = "claimed/read"     // its answer has messages, and the relay has not seen it
	beforeBegun     point = "before/begun"     // the publisher was called
	afterSent       point = "after/sent"       // the request is written, nothing of its answer is read
	afterAnswered   point = "after/answered"   // the receiver has answered, the publisher has not returned
	afterUnsettled  point = "after/unsettled"  // the results are ready, nothing of them is written
	settlingPart    point = "settling/part"    // a part of them is written, not its end
	settlingSent    point = "settling/sent"    // all of them is written, nothing of the answer is read
)

// points returns the places in a step where a process can be told to die.
func points(s step) []point {
	switch s {
	case atPublish:
		return []point{publishQueued, publishUnsent, publishPart}
	case atPublished:
		return []point{publishedSent, publishedUntold}
	case atIdle:
		return []point{idleUnsent}
	case atClaimed:
		return []point{claimedRead, claimedSent}
	case atBefore:
		return []point{beforeBegun}
	case atAfter:
		return []point{afterAnswered, afterUnsettled, afterSent}
	case atSettling:
		return []point{settlingSent, settlingPart}
	}
	return nil
}

// stepOf returns the step of a point.
func stepOf(p point) step {
	for _, s := range steps() {
		for _, q := range points(s) {
			if p == q {
				return s
			}
		}
	}
	return ""
}

// death is where a process is to die: at the first visit to the point behind some others, once it has lived for a while.
type death struct {
	Point point
	After int           // visits that it survives
	Awake time.Duration // how long visits do not count
	Part  float64       // how much is written before, where that is a part; between 0 and 1
	Delay time.Duration // from there to the kill
}

// The places where a relay can be stopped, which is what a paused virtual machine does: the process stands still, its
// connections stay open, and its leases run out.
const (
	stopBegun    point = "stopped/begun"    // the publisher was called, nothing is sent: it is sent late
	stopSettling point = "stopped/settling" // the results are ready, nothing of them is written: they come too late
)

func stopPoints() []point { return []point{stopSettling, stopBegun} }

// stop is where a relay is to be stopped, once.
type stop struct {
	Point point
	After int
}
