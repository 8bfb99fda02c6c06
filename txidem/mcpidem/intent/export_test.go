package intent

import "time"

// WithRandom gives cfg another source of pauses: random returns a number in [0, n).
func WithRandom(cfg Config, random func(n time.Duration) time.Duration) *Config {
	cfg.random = random
	return &cfg
}
