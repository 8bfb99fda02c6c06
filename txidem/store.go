package txidem

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what a [Store] can be told.
type Config struct {
	// Schema is the Postgres schema that migrations.Up filled. Defaults to "txonce".
	Schema string

	// Policy is what requests fall back to, field by field. Defaults to the defaults of [Policy].
	Policy *Policy
}

// Store keeps the records of calls in Postgres. It is made once per process and may be used by any number of
// goroutines. It starts none itself and needs no closing: the pool belongs to the caller.
type Store struct {
	pool   *pgxpool.Pool
	sql    queries
	policy Policy
	waits  waits
}

// New makes a store on the pool. It does not connect. It returns an error that names the field for a bad config.
func New(pool *pgxpool.Pool, cfg *Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("txidem: New needs a pool; make one with pgxpool.New")
	}
	if cfg == nil {
		cfg = &Config{}
	}
	schema := first(cfg.Schema, "txonce")
	if !schemaName.MatchString(schema) {
		return nil, fmt.Errorf("txidem: Config.Schema is %q; use lower-case letters, digits and underscores, at most 40", schema)
	}
	policy := cfg.Policy.over(defaultPolicy())
	if err := policy.validate(); err != nil {
		return nil, err
	}
	return &Store{pool: pool, sql: queriesFor(schema), policy: policy}, nil
}

// PolicyFor returns what holds for a request with the policy p: its fields, the store's where it is silent. It returns
// an error that names the field for a bad one.
func (s *Store) PolicyFor(p *Policy) (Policy, error) {
	policy := p.over(s.policy)
	return policy, policy.validate()
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)
