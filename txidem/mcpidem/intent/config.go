package intent

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Config says which calls are repeated, and for how long. The zero value of a field means its default.
type Config struct {
	// Tools reports which tools are protected on the server, so that repeating a call of them is safe: [Guarded] reads it from
	// the server's own list. Calls of all others pass untouched. Mandatory: a tool that is not protected would be called twice.
	Tools func(name string) bool

	// Require refuses calls of protected tools whose context names no intent, instead of letting them pass. Defaults to false.
	Require bool

	// Deadline is how long one call may take, with all its repetitions. The context's own deadline counts too. Defaults to 2 minutes.
	Deadline time.Duration

	// Attempt is how long one attempt may take until its answer counts as lost. It should exceed what the slowest tool takes.
	// Defaults to 30 seconds.
	Attempt time.Duration

	// MinBackoff bounds the random pause before the first repetition; the bound doubles each time, up to MaxBackoff. Default to
	// 200 milliseconds and 5 seconds.
	MinBackoff, MaxBackoff time.Duration

	// StatusTool is the server's tool that tells what became of a call, if the server has one. It is asked after an attempt whose
	// outcome is not known, with the arguments tool and idempotency_key, and answers in structuredContent with state, a
	// toolcall.State: "running" is waited for (retry_after_seconds, if it is there), "expired" ends the call with [ErrExpired],
	// behind every other one the call is made again. Package statustool makes such a tool. Defaults to none: the call is
	// repeated without asking.
	StatusTool string

	// Logger hears of each repetition, at level Info, and of outcomes that stay unknown, at level Warn. Never write it to
	// the stdout of a server. Defaults to a logger that discards.
	Logger *slog.Logger

	// random returns a number in [0, n): the tests' seam.
	random func(n time.Duration) time.Duration
}

// withDefaults returns a copy that is complete, or an error that names the field.
func (cfg *Config) withDefaults() (Config, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"Deadline", &c.Deadline, 2 * time.Minute},
		{"Attempt", &c.Attempt, 30 * time.Second},
		{"MinBackoff", &c.MinBackoff, 200 * time.Millisecond},
		{"MaxBackoff", &c.MaxBackoff, max(5*time.Second, c.MinBackoff)},
	} {
		if *f.value < 0 {
			return c, fmt.Errorf("intent: Config.%s is %v; give a time above 0, or 0 for the default", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	if c.MinBackoff > c.MaxBackoff {
		return c, fmt.Errorf("intent: Config.MinBackoff is %v, above MaxBackoff, which is %v; lower the one or raise the other", c.MinBackoff, c.MaxBackoff)
	}
	if c.Tools == nil {
		return c, errors.New("intent: Config.Tools is missing; say which tools the server protects, such as by Guarded")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.random == nil {
		c.random = rand.N[time.Duration]
	}
	return c, nil
}

// backoff is the pause before the n-th repetition, n from 0: full jitter, so that clients that were cut off together do
// not come back together.
func (c *Config) backoff(n int) time.Duration {
	bound := c.MinBackoff
	for ; n > 0 && bound < c.MaxBackoff; n-- {
		bound *= 2
	}
	return c.random(min(bound, c.MaxBackoff) + 1)
}
