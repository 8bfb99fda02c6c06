package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is what an [Outbox] can be told. The zero value of a field means its default.
type Config struct {
	// Schema is the Postgres schema that migrations.Up filled, at most 46 bytes. Defaults to "txonce".
	Schema string

	// MaxBody is the size in bytes up to which a message's body is accepted. At most 16 MiB. Defaults to 256 KiB.
	MaxBody int

	// Poll is the time between two looks of a relay that has nothing to do. A message that is published in the same process is
	// looked for at once. From 5 ms to 1 minute. Defaults to 100 ms.
	Poll time.Duration

	// Sweep is the time between two removals of messages whose retention is over. From 1 second to 1 day. Defaults to 1 minute.
	Sweep time.Duration

	// Logger hears of attempts that fail, of messages that end without having been delivered, and of results that came too late.
	// Defaults to one that discards.
	Logger *slog.Logger
}

// Outbox publishes messages, and relays them while Run runs. It may be used by any number of goroutines.
type Outbox struct {
	pool         *pgxpool.Pool
	cfg          Config
	sql          queries
	log          *slog.Logger
	destinations map[string]*Destination
	names        []string      // of the destinations, in their order
	woken        chan struct{} // a message was published in this process
	running      sync.Mutex
	pace         func(took time.Duration) (pause time.Duration) // of walks over the ordering keys
}

// New makes an outbox on the pool for the destinations. It does not connect and starts nothing. cfg may be nil. It returns an
// error that names the field of the config or the destination that is bad.
func New(pool *pgxpool.Pool, cfg *Config, destinations ...Destination) (*Outbox, error) {
	if pool == nil {
		return nil, errors.New("outbox: New needs a pool; make one with pgxpool.New")
	}
	if len(destinations) == 0 {
		return nil, errors.New("outbox: New needs a destination; give it an outbox.Destination with a Name")
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	o := &Outbox{
		pool: pool, cfg: c, sql: queriesFor(c.Schema), log: c.Logger,
		destinations: make(map[string]*Destination), woken: make(chan struct{}, 1), pace: paceOfWalks,
	}
	for _, given := range destinations {
		d, err := given.withDefaults()
		if err != nil {
			return nil, err
		}
		if o.destinations[d.Name] != nil {
			return nil, fmt.Errorf("outbox: two destinations are called %q; give one of them another name", d.Name)
		}
		o.destinations[d.Name] = d
		o.names = append(o.names, d.Name)
	}
	return o, nil
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,45}$`)

func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	out.Schema = or(out.Schema, "txonce")
	out.MaxBody = or(out.MaxBody, 256<<10)
	out.Poll = or(out.Poll, 100*time.Millisecond)
	out.Sweep = or(out.Sweep, time.Minute)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case !schemaName.MatchString(out.Schema):
		return out, fmt.Errorf("outbox: Config.Schema is %q; use lower-case letters, digits and underscores, at most 46 bytes", out.Schema)
	case out.MaxBody < 1 || out.MaxBody > 16<<20:
		return out, fmt.Errorf("outbox: Config.MaxBody is %d; use 1 to %d bytes", out.MaxBody, 16<<20)
	case out.Poll < 5*time.Millisecond || out.Poll > time.Minute:
		return out, fmt.Errorf("outbox: Config.Poll is %v; use 5ms to 1m", out.Poll)
	case out.Sweep < time.Second || out.Sweep > 24*time.Hour:
		return out, fmt.Errorf("outbox: Config.Sweep is %v; use 1s to 24h", out.Sweep)
	}
	return out, nil
}
