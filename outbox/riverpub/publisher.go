package riverpub

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/txonce/txonce/outbox"
)

// Config is what a [Publisher] can be told about the jobs it inserts. The zero value of a field means its default.
type Config struct {
	// Kind is what River calls the jobs, and names the worker. 2 to 127 letters, digits and the characters _-.:/ with a letter, a
	// digit or an underscore in front. Defaults to DefaultKind.
	Kind string

	// Queue is River's queue for them: up to 64 lower-case letters and digits, with hyphens and underscores between them. Defaults to
	// River's own, "default".
	Queue string

	// Priority is from 1, the highest, to 4. Defaults to 1.
	Priority int

	// MaxAttempts is how often River works a job before it gives it up. From 1 to 32,767. Defaults to what the client's config
	// says, and that to 25.
	MaxAttempts int
}

// Beginner begins transactions on the database that has River's tables. A *pgxpool.Pool is one.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Publisher is an [outbox.Publisher] that inserts jobs. It may be used by many goroutines at once.
type Publisher struct {
	db     Beginner
	client *river.Client[pgx.Tx]
	cfg    Config
}

// New makes a publisher that inserts jobs with the client, in transactions of db. It does not connect and starts nothing; the client
// need not be started. cfg may be nil. It returns an error that names what is missing or bad.
func New(db Beginner, client *river.Client[pgx.Tx], cfg *Config) (*Publisher, error) {
	switch {
	case db == nil:
		return nil, errors.New("riverpub: New needs the pool of the database that has River's tables; make one with pgxpool.New")
	case client == nil:
		return nil, errors.New("riverpub: New needs a client of River; make one with river.NewClient")
	}
	p := &Publisher{db: db, client: client}
	if cfg != nil {
		p.cfg = *cfg
	}
	if p.cfg.Kind == "" {
		p.cfg.Kind = DefaultKind
	}
	if err := p.cfg.wrong(); err != nil {
		return nil, err
	}
	return p, nil
}

var (
	kindName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]{1,126}$`)
	queueName = regexp.MustCompile(`^[a-z0-9]+([_-]?[a-z0-9]+)*$`)
)

// wrong refuses here what River would refuse with each message.
func (c *Config) wrong() error {
	switch {
	case !kindName.MatchString(c.Kind):
		return fmt.Errorf("riverpub: Config.Kind is %.150q; use 2 to 127 letters, digits and _-.:/ with a letter, digit or underscore in front", c.Kind)
	case c.Queue != "" && (len(c.Queue) > 64 || !queueName.MatchString(c.Queue)):
		return fmt.Errorf("riverpub: Config.Queue is %.80q; use up to 64 lower-case letters and digits, with single hyphens and underscores between them", c.Queue)
	case c.Priority < 0 || c.Priority > 4:
		return fmt.Errorf("riverpub: Config.Priority is %d; use 1 to 4, or 0 for River's default", c.Priority)
	case c.MaxAttempts < 0 || c.MaxAttempts > 32_767:
		return fmt.Errorf("riverpub: Config.MaxAttempts is %d; use 1 to 32767, or 0 for the client's default", c.MaxAttempts)
	}
	return nil
}

// Deliver inserts the message's job, or finds it, in a short transaction of its own: a unique insertion locks the row that it
// finds, and River's completion of jobs waits for that lock (facts R3, R4), so it may not be part of anything longer.
func (p *Publisher) Deliver(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
	var inserted *rivertype.JobInsertResult
	err := pgx.BeginFunc(ctx, p.db, func(tx pgx.Tx) (err error) {
		inserted, err = p.client.InsertTx(ctx, tx, argsOf(d, p.cfg.Kind), p.options())
		return err
	})
	switch {
	case err == nil:
		return outbox.Outcome{Class: outbox.Delivered, ProviderID: strconv.FormatInt(inserted.Job.ID, 10)}, nil
	case inserted == nil: // no COMMIT was sent
		return outbox.Outcome{Class: outbox.Retry, Reason: "riverpub: no job was inserted: " + err.Error()}, nil
	}
	return outbox.Outcome{}, fmt.Errorf("riverpub: the job may have been inserted: %w", err)
}

// options has River's unique index hold the message's id: across kinds and queues, for a release may rename them between two
// attempts, and in all states, for a job that was cancelled or given up is not made anew by a relay whose answer was lost.
func (p *Publisher) options() *river.InsertOpts {
	return &river.InsertOpts{
		Queue: p.cfg.Queue, Priority: p.cfg.Priority, MaxAttempts: p.cfg.MaxAttempts,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ExcludeKind: true, ByState: rivertype.JobStates()},
	}
}
