package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/outbox"
)

// receiverName is the destination that all messages go to.
const receiverName = "receiver"

// process is one process, as far as messages go: it publishes, and relays while start's relay runs.
type process struct {
	*outbox.Outbox
	complaints complaints
}

// newProcess makes one whose receiver is a function, if there is one.
func (b *outboxBench) newProcess(pool *pgxpool.Pool, deliver outbox.Func) (*process, error) {
	to := outbox.Destination{Concurrency: b.options.concurrency}
	if deliver != nil {
		to.Publisher = deliver
	}
	return b.newProcessWith(pool, &outbox.Config{}, to)
}

func (b *outboxBench) newProcessWith(pool *pgxpool.Pool, cfg *outbox.Config, to outbox.Destination) (*process, error) {
	return openProcess(pool, b.db.calls, cfg, to)
}

// openProcess makes one in the schema.
func openProcess(pool *pgxpool.Pool, schema string, cfg *outbox.Config, to outbox.Destination) (p *process, err error) {
	p = &process{}
	cfg.Schema, cfg.Logger = schema, slog.New(&p.complaints)
	to.Name, to.Timeout = receiverName, hangs // no machine is so slow that a message is sent twice
	p.Outbox, err = outbox.New(pool, cfg, to)
	return p, err
}

// start runs the relay. stop ends it, when what was delivered has been written down, and says what it complained of.
func (p *process) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		err := <-done
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(err, p.complaints.first())
	})
}

// startAll starts the relays of several processes.
func startAll(ctx context.Context, all []*process) (stop func() error) {
	var stops []func() error
	for _, p := range all {
		stops = append(stops, p.start(ctx))
	}
	return func() error { return together(len(stops), func(i int) error { return stops[i]() }) }
}

// complaints is a log that keeps the first warning: what has one measures something else.
type complaints struct {
	mu   sync.Mutex
	text string
}

// Enabled is for slog.
func (c *complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// WithAttrs is for slog.
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler { return c }

// WithGroup is for slog.
func (c *complaints) WithGroup(string) slog.Handler { return c }

// Handle is for slog.
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == "" {
		c.text = r.Message
		r.Attrs(func(a slog.Attr) bool {
			c.text += fmt.Sprintf(" %v", a)
			return true
		})
	}
	return nil
}

func (c *complaints) first() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.text == "" {
		return nil
	}
	return fmt.Errorf("a warning was logged: %s", c.text)
}

// errLost ends what waits for messages that do not come.
var errLost = errors.New("messages do not come")

// await waits until so many have come, for as long as some do.
func await(ctx context.Context, want int, come func() int) error {
	for last, since := -1, time.Now(); ; {
		n := come()
		switch {
		case n >= want:
			return nil
		case n != last:
			last, since = n, time.Now()
		case time.Since(since) > hangs:
			return fmt.Errorf("%w: %d of %d", errLost, n, want)
		}
		if !pause(ctx, time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
