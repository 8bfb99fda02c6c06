package outbox

import "time"

// WalkOnce has relays walk over the ordering keys once, as if that took long, and then look at what is new and at what they have
// delivered themselves only.
func (o *Outbox) WalkOnce() { o.pace = func(time.Duration) time.Duration { return time.Hour } }

// WalkAlways has relays walk each time.
func (o *Outbox) WalkAlways() { o.pace = func(time.Duration) time.Duration { return 0 } }
