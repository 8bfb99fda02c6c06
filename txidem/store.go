package txidem

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/sideconn"
	"github.com/txonce/txonce/toolcall"
)

// Config is what a [Store] can be told.
type Config struct {
	// Schema is the Postgres schema that migrations.Up filled, at most 46 bytes. Defaults to "txonce".
	Schema string

	// Authorize is asked before a recorded answer or failure is given again, and before Status tells of it: a caller may
	// have lost a right since. An error refuses with ErrNotAllowed, and the record stays. Defaults to letting all pass.
	Authorize func(ctx context.Context, r Recorded) error

	// Codec stands between answers and the table, for encryption or redaction. Defaults to none: answers are stored as they are.
	Codec Codec

	// Observer is told how each call ended. Defaults to none.
	Observer Observer

	// Logger hears of sweeps and of renewals of leases that fail, of calls that run unprotected, of outcomes that stay unknown, and of what
	// a handler, an observer or a callback did wrong. Defaults to one that discards.
	Logger *slog.Logger

	// Policy is what requests fall back to, field by field. Defaults to the defaults of [Policy].
	Policy *Policy
}

// Recorded is a call that has ended, without its answer.
type Recorded struct {
	ID         toolcall.ID
	Scope      string
	Tool       string
	Failed     bool      // the record is a failure
	FinishedAt time.Time // by the database's clock
}

// Store keeps the records of calls in Postgres. It is made once per process and may be used by any number of
// goroutines. It needs no closing: the pool belongs to the caller. It opens at most two connections beside the pool when the
// outcome of a commit has to be found out, two for Resolve, and one, with one goroutine, while calls by RunLeased are
// running that have to renew their leases; and closes them again.
type Store struct {
	pool      *pgxpool.Pool
	reserve   *sideconn.Reserve // for calls that lost the answer of their commit
	resolvers *sideconn.Reserve // for Resolve, which may wait for long and must not be in their way
	renewals  *sideconn.Reserve // for the leases of running calls
	sql       queries
	policy    Policy
	authorize func(context.Context, Recorded) error
	codec     Codec
	observer  Observer
	log       *slog.Logger
	waits     waits
	slow      slowTools
	leases    leases
	quotas    quotas
	changes   toolcall.Changes
	memory    *memoryStore // in place of all that, in unit tests
	platform  atomic.Int32 // what is known of the server, a platform
}

// reserved is how many connections each of them may have beside the pool.
const reserved = 2

// New makes a store on the pool. It does not connect. It returns an error that names the field for a bad config.
func New(pool *pgxpool.Pool, cfg *Config) (*Store, error) {
	if pool == nil {
		return nil, errors.New("txidem: New needs a pool; make one with pgxpool.New")
	}
	if cfg == nil {
		cfg = &Config{}
	}
	s, err := newStore(cfg)
	if err != nil {
		return nil, err
	}
	s.pool, s.reserve, s.resolvers, s.renewals = pool, sideconn.New(pool, reserved), sideconn.New(pool, reserved), sideconn.New(pool, reserved)
	s.leases.store, s.renewals.Patience = s, s.leases.patience
	return s, nil
}

// newStore makes what stores with and without Postgres have in common.
func newStore(cfg *Config) (*Store, error) {
	schema := first(cfg.Schema, "txonce")
	if !schemaName.MatchString(schema) {
		return nil, fmt.Errorf("txidem: Config.Schema is %q; use lower-case letters, digits and underscores, at most 46 bytes", schema)
	}
	policy := cfg.Policy.over(defaultPolicy())
	if err := policy.validate(); err != nil {
		return nil, fmt.Errorf("txidem: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		sql: queriesFor(schema), policy: policy,
		authorize: cfg.Authorize, codec: cfg.Codec, observer: cfg.Observer, log: log,
	}, nil
}

// PolicyFor returns what holds for a request with the policy p: its fields, the store's where it is silent. It returns
// an error that names the field for a bad one.
func (s *Store) PolicyFor(p *Policy) (Policy, error) {
	policy := p.over(s.policy)
	if err := policy.validate(); err != nil {
		return Policy{}, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	return policy, nil
}

// lockKey is the id of the advisory lock that stands for the call while it runs: 62 bits of the call's hash and two of
// the UUID's variant, mixed with the schema, for two schemas in one database share the locks. Two calls with one lock
// key merely hear "in progress" of each other; the primary key decides.
func (s *Store) lockKey(id *identity) int64 { return s.lockFor(id.scope, id.ID) }

// lockFor is the same for those who have an id and say whose it is. The scope is mixed in: who asks for the status of another
// scope's call by its id looks for another lock, and finds nothing, as for a call that was never made.
func (s *Store) lockFor(scope string, id toolcall.ID) int64 {
	of := sha256.Sum256([]byte(scope))
	return int64(binary.BigEndian.Uint64(id[8:]) ^ s.sql.lockSpace ^ binary.BigEndian.Uint64(of[:]))
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,45}$`)
