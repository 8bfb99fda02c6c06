package main

import "time"

// cpu is the time that processors have spent.
type cpu struct{ client, server time.Duration }

// since is what both have spent since then.
func (c cpu) since(before cpu) time.Duration {
	return c.client + c.server - before.client - before.server
}
