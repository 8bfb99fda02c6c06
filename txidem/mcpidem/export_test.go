package mcpidem

import "time"

// SetNow gives the adapter another clock.
func (a *Adapter) SetNow(now func() time.Time) { a.now = now }
