package toolcall

import "sync"

// Changes tells those who wait that something has changed in this process, so that they need not wait for the next time they
// look. The zero value is ready; where nobody waits it costs nothing to speak of.
type Changes struct {
	mu   sync.Mutex
	next chan struct{}
}

// Changed returns a channel that is closed at the next change. Take it before looking, or a change in between is missed.
func (c *Changes) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Notify tells all who wait.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}
