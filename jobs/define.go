package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// Definition is a kind of job: what it is called, what it takes and gives, and who does the work. It is made by [Define],
// holds no state and may be used by any number of runners.
type Definition[In, Out any] struct {
	def *definition
	err error
}

// Commit is the second half of a job: it writes what the work came to, in one short transaction that commits together with
// the job's result. It may run more than once (Postgres may ask for a repeat), each time in a new transaction, and must not
// end or keep tx. Its context carries the [toolcall.Call] of the job, is not cancelled with the attempt's, and ends after
// Options.CommitTimeout.
type Commit[Out any] func(ctx context.Context, tx pgx.Tx) (Out, error)

// Job is what the work is given.
type Job[In any] struct {
	ID          toolcall.ID
	Scope       string // who submitted it
	Args        In
	Attempt     int // 1 for the first
	MaxAttempts int
	SubmittedAt time.Time // by the database's clock

	attempt *attempt
}

// Progress reports how far the attempt has come: a fraction from 0 to 1, and a message of at most 500 bytes for people and
// models. It returns at once and never fails; the latest report is written at most once a second, and a reader sees it
// about a second later. What is reported in an attempt that ends is gone.
func (j *Job[In]) Progress(fraction float64, message string) {
	if j.attempt != nil { // else it was made by hand, in a test
		j.attempt.report(fraction, message)
	}
}

// Options say how jobs of one kind are worked. The zero value of a field means its default.
type Options struct {
	// Queue is the queue that jobs wait in, for workers of runners that have it in Config.Queues. A kind whose queue no started
	// runner works waits, without an error. Defaults to "default".
	Queue string

	// Priority is 1, the most urgent, to 4. Defaults to 1.
	Priority int

	// MaxAttempts is how often the work is begun before the job fails: 1 to 1000. An attempt whose worker was killed counts,
	// one that was handed back by a worker that stopped does not. Defaults to 5, whose pauses add up to some 15 seconds.
	MaxAttempts int

	// Timeout bounds one attempt: its context ends then. Defaults to 1 hour; at most 30 days.
	Timeout time.Duration

	// Within is the time from a job's submission, or from SubmitOpts.RunAt, to its deadline, where SubmitOpts.Deadline gives
	// none. At most ten years. Defaults to none.
	Within time.Duration

	// Backoff is the pause behind the given attempt, 1 for the first. Defaults to 1 s, doubled with each attempt, at most
	// 5 minutes, give or take a fifth. River moves pauses above 5 s on each 5 s.
	Backoff func(attempt int) time.Duration

	// Retention is how long a job that has ended can be asked for. It is never shorter than the retention of the call that
	// submitted it. At most ten years. Defaults to 7 days.
	Retention time.Duration

	// CommitTimeout bounds the commit half with its COMMIT. At most 1 hour. Defaults to 30 seconds.
	CommitTimeout time.Duration

	// MaxAnswer is the size in bytes above which an encoded result fails the job. Defaults to 16 MiB, the largest value
	// allowed.
	MaxAnswer int
}

// Define makes a kind of job. work computes, outside any transaction and for as long as it takes, and returns the
// function that commits what it came to. An error made by [Fail] ends the job as failed; any other error ends the attempt,
// and there is another one until MaxAttempts. A panic is such an error. opts may be nil.
//
// The name is stored with each job: 2 to 100 letters, digits and any of _-./:+, the first no sign. Two definitions of one runner may not share one.
// A job that was submitted before a deploy is worked behind it: give a definition whose arguments changed incompatibly a
// new name. What is wrong with a definition is told by [New].
func Define[In, Out any](name string, work func(ctx context.Context, job *Job[In]) (Commit[Out], error), opts *Options) *Definition[In, Out] {
	if opts == nil {
		opts = &Options{}
	}
	d := &Definition[In, Out]{def: &definition{kind: name, opts: opts.withDefaults(), out: reflect.TypeFor[Out]()}}
	d.def.run = func(ctx context.Context, a *attempt) (commit, error) {
		job := &Job[In]{ID: a.id, Scope: a.scope, Attempt: a.number, MaxAttempts: a.max, SubmittedAt: a.submittedAt, attempt: a}
		if err := json.Unmarshal(a.args, &job.Args); err != nil {
			return nil, fmt.Errorf("%w (%w)", Fail(CodeBadArgs, "The arguments of the job do not fit what its worker expects. Nothing was changed; submit it anew with arguments that do."), err)
		}
		c, err := work(ctx, job)
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			return nil, ErrNoCommit
		}
		return func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			out, err := c(ctx, tx)
			if err != nil {
				return nil, err
			}
			return encode(out)
		}, nil
	}
	if work == nil {
		d.err = fmt.Errorf("jobs: Define(%q) has no work; give it a function", name)
	}
	return d
}

// Kind returns the name of the definition.
func (d *Definition[In, Out]) Kind() string { return d.def.kind }

// Result decodes the result of a job of this kind that has succeeded. A failed one gives its [*toolcall.Failure].
func (d *Definition[In, Out]) Result(status toolcall.Status) (Out, error) {
	var out Out
	switch {
	case status.Tool != d.def.kind:
		return out, fmt.Errorf("%w: the job is a %q, not a %q", ErrUnknownKind, status.Tool, d.def.kind)
	case status.State == toolcall.StateFailed && status.Failure != nil:
		return out, status.Failure
	case status.State != toolcall.StateSucceeded:
		return out, fmt.Errorf("jobs: job %s has no result: it is %s", status.ID, status.State)
	}
	if err := json.Unmarshal(status.Answer, &out); err != nil {
		return out, fmt.Errorf("%w: the result of job %s does not decode: %w", ErrAnswer, status.ID, err)
	}
	return out, nil
}

// Registered is a definition of any type, as New takes it.
type Registered interface{ registered() (*definition, error) }

func (d *Definition[In, Out]) registered() (*definition, error) {
	if d == nil {
		return nil, errNilDefinition
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.def, d.def.validate()
}

// definition is a kind of job without its types.
type definition struct {
	kind string
	opts Options
	out  reflect.Type // what it answers with
	run  func(context.Context, *attempt) (commit, error)
}

// commit is the second half without its type: it answers with bytes.
type commit func(ctx context.Context, tx pgx.Tx) ([]byte, error)

func encode(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return raw, nil
}

const (
	defaultQueue    = "default"
	maxAnswer       = 16 << 20
	longestAttempt  = 30 * 24 * time.Hour
	longestKeep     = 10 * 366 * 24 * time.Hour
	longestBackoff  = 5 * time.Minute
	longestProgress = 500
)

func (o Options) withDefaults() Options {
	o.Queue = first(o.Queue, defaultQueue)
	o.Priority = first(o.Priority, 1)
	o.MaxAttempts = first(o.MaxAttempts, 5)
	o.Timeout = first(o.Timeout, time.Hour)
	o.Retention = first(o.Retention, 7*24*time.Hour)
	o.CommitTimeout = first(o.CommitTimeout, 30*time.Second)
	o.MaxAnswer = first(o.MaxAnswer, maxAnswer)
	if o.Backoff == nil {
		o.Backoff = doubling
	}
	return o
}

// kindName is what River takes as the kind of a job, without the brackets that it allows too.
var kindName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./:+-]{1,99}$`)

// queueName is what River takes as the name of a queue.
var queueName = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

func (d *definition) validate() error {
	if !kindName.MatchString(d.kind) {
		return fmt.Errorf("jobs: %q is no name for a kind of job; use 2 to 100 letters, digits and any of _-./:+, the first no sign", d.kind)
	}
	if bad := d.opts.wrong(); bad != "" {
		return fmt.Errorf("%w: Options of %q: %s", ErrOptions, d.kind, bad)
	}
	return nil
}

// wrong says what is wrong with the options, if anything.
func (o *Options) wrong() string {
	switch {
	case !queueName.MatchString(o.Queue) || len(o.Queue) > 64:
		return fmt.Sprintf("Queue is %q; use at most 64 lower-case letters and digits, with single _ or - between them", o.Queue)
	case o.Priority < 1 || o.Priority > 4:
		return fmt.Sprintf("Priority is %d; use 1, the most urgent, to 4", o.Priority)
	case o.MaxAttempts < 1 || o.MaxAttempts > 1000:
		return fmt.Sprintf("MaxAttempts is %d; it must be between 1 and 1000", o.MaxAttempts)
	case o.Timeout < time.Millisecond || o.Timeout > longestAttempt:
		return fmt.Sprintf("Timeout is %v; it must be between 1ms and %v", o.Timeout, longestAttempt)
	case o.Within < 0 || o.Within > longestKeep:
		return fmt.Sprintf("Within is %v; it must be between 0, for none, and %v", o.Within, longestKeep)
	case o.Retention < time.Millisecond || o.Retention > longestKeep:
		return fmt.Sprintf("Retention is %v; it must be between 1ms and %v", o.Retention, longestKeep)
	case o.CommitTimeout < time.Millisecond || o.CommitTimeout > time.Hour:
		return fmt.Sprintf("CommitTimeout is %v; it must be between 1ms and 1h", o.CommitTimeout)
	case o.MaxAnswer < 1 || o.MaxAnswer > maxAnswer:
		return fmt.Sprintf("MaxAnswer is %d; it must be between 1 and %d bytes", o.MaxAnswer, maxAnswer)
	}
	return ""
}

// pause is what Backoff says, kept to what makes sense.
func (d *definition) pause(attempt int) (pause time.Duration) {
	defer func() {
		if recover() != nil { // it is the user's function
			pause = doubling(attempt)
		}
	}()
	return min(max(d.opts.Backoff(attempt), 0), longestAttempt)
}

func doubling(attempt int) time.Duration {
	pause := min(time.Second<<min(max(attempt-1, 0), 20), longestBackoff)
	return pause - pause/5 + rand.N(2*pause/5)
}

func first[T comparable](value, fallback T) T {
	var zero T
	if value != zero {
		return value
	}
	return fallback
}
