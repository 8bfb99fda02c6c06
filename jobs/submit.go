package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/toolcall"
)

// Handle is what a tool answers with: the id under which the job can be asked for. It is part of the call's recorded answer,
// so each retry of the call gets the same one.
type Handle struct {
	JobID string         `json:"job_id" jsonschema:"id of the job; ask for its status with it"`
	Kind  string         `json:"kind" jsonschema:"what is being done"`
	State toolcall.State `json:"state" jsonschema:"state of the job when it was submitted; ask for its status to know how far it is now"`
	Next  string         `json:"next" jsonschema:"what to do next"`
}

// next is what a model is told.
const next = "The work goes on in the background. Ask for the status of this job_id until it has ended. Do not call this tool again for the same work."

// SubmitOpts say how one job differs from its definition. The zero value of a field means the definition's.
type SubmitOpts struct {
	// Scope says who may see the job: the caller, a tenant. Mandatory outside a protected call, at most 255 bytes; inside
	// one it is the call's.
	Scope string

	// RunAt is the time before which the first attempt does not begin. Defaults to now.
	RunAt time.Time

	// Deadline is the time from which no attempt commits: the job fails with the code "deadline_exceeded". It is looked at when
	// the commit half begins and once more with the job's end, so work that is late is rolled back. Defaults to Options.Within
	// after RunAt.
	Deadline time.Time

	Queue       string // Defaults to Options.Queue.
	Priority    int    // Defaults to Options.Priority.
	MaxAttempts int    // Defaults to Options.MaxAttempts.
}

// SubmitTx submits a job in tx: it exists if and only if tx commits, and may begin a moment later. In the handler of a
// protected call, with that handler's tx, it commits together with the call's record: the call answers with the handle at
// once, and so does each retry of it, for as long as the job runs and the call's retention after that. In any other
// transaction SubmitOpts.Scope is mandatory, and the caller sees to it that one intent submits once. It costs one round
// trip, and a second one where River notifies workers: at most once per queue in 100 ms. opts may be nil.
//
// The errors are ErrScope, ErrArgs, ErrOptions, ErrUnknownKind, ErrOtherTx, ErrNoClient, and those of the database. With any
// of them, roll tx back.
func (d *Definition[In, Out]) SubmitTx(ctx context.Context, tx pgx.Tx, r *Runner, in In, opts *SubmitOpts) (Handle, error) {
	if d.err != nil {
		return Handle{}, d.err
	}
	if r == nil || tx == nil {
		return Handle{}, errors.New("jobs: SubmitTx needs a runner and a transaction; make one with jobs.New, and pass on the handler's tx")
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return Handle{}, fmt.Errorf("%w: give the definition a type that can be encoded as JSON: %w", ErrArgs, err)
	}
	return r.submit(ctx, tx, d.def, raw, opts)
}

func (r *Runner) submit(ctx context.Context, tx pgx.Tx, def *definition, args []byte, opts *SubmitOpts) (Handle, error) {
	s, err := r.order(ctx, def, args, opts)
	if err != nil {
		return Handle{}, err
	}
	client := r.client.Load()
	if client == nil {
		return Handle{}, ErrNoClient
	}
	ofCall, err := r.insert(ctx, tx, client, s, args)
	switch {
	case err != nil:
		return Handle{}, explain(ctx, err)
	case s.call == nil:
		return s.handle(), nil
	case !ofCall && s.call.Epoch == "": // a leased call has no transaction of its own
		return Handle{}, ErrOtherTx
	}
	if err := s.call.Hold(); err != nil {
		return Handle{}, err
	}
	return s.handle(), nil
}

// insert hangs the doorbell and writes the job. It reports whether the transaction is that of a protected call.
func (r *Runner) insert(ctx context.Context, tx pgx.Tx, client *river.Client[pgx.Tx], s *order, args []byte) (ofCall bool, err error) {
	var noted int64
	read := func(row pgx.Row) error { return row.Scan(&ofCall, &noted) }
	row := func(hung *int64) []any {
		return []any{
			uuidOf(s.id), s.scope, s.kind, s.queue, s.priority, args, s.callID(), s.keepCall(), s.keep.Seconds(),
			hung, s.maxAttempts, microseconds(s.runAt), microseconds(s.deadline), secondsOrNone(s.within), r.cfg.Lease.Seconds(),
		}
	}
	riding := &ride{Tx: tx, sql: r.sql.submit, args: row(nil), read: read}
	hung, err := client.InsertTx(ctx, riding, bell{Job: s.id, kind: s.kind}, s.bell())
	switch {
	case riding.err != nil: // what River says behind it is a consequence
		return false, riding.err
	case err != nil:
		return false, err
	case !riding.taken:
		return ofCall, read(tx.QueryRow(ctx, r.sql.submit, row(&hung.Job.ID)...))
	case noted != hung.Job.ID: // a trigger of somebody's has taken numbers too
		_, err = tx.Exec(ctx, r.sql.ring, uuidOf(s.id), hung.Job.ID, r.cfg.Lease.Seconds())
	}
	return ofCall, err
}

// order is a checked submission.
type order struct {
	id                    toolcall.ID
	kind                  string
	scope, queue          string
	priority, maxAttempts int
	runAt, deadline       time.Time
	keep, within          time.Duration
	call                  *toolcall.Call // whose record waits for the job, if there is one
}

func (r *Runner) order(ctx context.Context, def *definition, args []byte, opts *SubmitOpts) (*order, error) {
	if r.kinds[def.kind] != def {
		return nil, fmt.Errorf("%w: %q", ErrUnknownKind, def.kind)
	}
	if len(args) > r.cfg.MaxArgs {
		return nil, fmt.Errorf("%w: they have %d bytes encoded, Config.MaxArgs is %d; store them and submit a reference", ErrArgs, len(args), r.cfg.MaxArgs)
	}
	if opts == nil {
		opts = &SubmitOpts{}
	}
	s := &order{
		id: newID(), kind: def.kind, scope: opts.Scope, runAt: opts.RunAt, deadline: opts.Deadline,
		queue: first(opts.Queue, def.opts.Queue), priority: first(opts.Priority, def.opts.Priority), maxAttempts: first(opts.MaxAttempts, def.opts.MaxAttempts),
		keep: def.opts.Retention, within: def.opts.Within,
	}
	if call, ok := toolcall.FromContext(ctx); ok && !call.Over() {
		if opts.Scope != "" && opts.Scope != call.Scope {
			return nil, fmt.Errorf("%w: inside a protected call it is the call's; leave SubmitOpts.Scope empty", ErrScope)
		}
		s.scope = call.Scope
		if call.Keep > 0 { // else the call is a job, which has no such record
			s.call = call
		}
	}
	return s, s.check()
}

func (s *order) check() error {
	switch {
	case s.scope == "":
		return fmt.Errorf("%w: outside a protected call, set SubmitOpts.Scope to say who may see the job", ErrScope)
	case !validScope(s.scope):
		return fmt.Errorf("%w of at most 255 bytes of valid UTF-8", ErrScope)
	case !s.deadline.IsZero() && !s.deadline.After(time.Now()):
		return fmt.Errorf("%w: the deadline %s is in the past; give a later one or none", ErrOptions, s.deadline.UTC().Format(time.RFC3339))
	case !s.deadline.IsZero() && !s.deadline.After(s.runAt):
		return fmt.Errorf("%w: the deadline %s is not after RunAt; give a later one or none", ErrOptions, s.deadline.UTC().Format(time.RFC3339))
	case s.deadline.IsZero() && s.within > 0 && !s.runAt.IsZero() && !s.runAt.Add(s.within).After(time.Now()):
		return fmt.Errorf("%w: RunAt is so long ago that the deadline, Options.Within after it, is in the past; give a later one or none", ErrOptions)
	case s.runAt.After(time.Now().Add(longestKeep)) || s.deadline.After(time.Now().Add(2*longestKeep)):
		return fmt.Errorf("%w: RunAt or Deadline is more than ten years away; give an earlier one", ErrOptions)
	}
	opts := Options{Queue: s.queue, Priority: s.priority, MaxAttempts: s.maxAttempts}.withDefaults()
	if bad := opts.wrong(); bad != "" {
		return fmt.Errorf("%w: SubmitOpts of a %q: %s", ErrOptions, s.kind, bad)
	}
	return nil
}

func validScope(scope string) bool {
	return scope != "" && len(scope) <= 255 && utf8.ValidString(scope) && !strings.ContainsRune(scope, 0)
}

func (s *order) bell() *river.InsertOpts {
	return &river.InsertOpts{MaxAttempts: s.maxAttempts, Priority: s.priority, Queue: s.queue, ScheduledAt: s.runAt}
}

func (s *order) handle() Handle {
	return Handle{JobID: s.id.String(), Kind: s.kind, State: toolcall.StateQueued, Next: next}
}

func (s *order) callID() pgtype.UUID {
	if s.call == nil {
		return pgtype.UUID{}
	}
	return uuidOf(s.call.ID)
}

func (s *order) keepCall() *float64 {
	if s.call == nil {
		return nil
	}
	return secondsOrNone(s.call.Keep)
}

func secondsOrNone(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	secs := d.Seconds()
	return &secs
}

func microseconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

// timeOf is the other way round.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
