package txidem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/internal/handlertx"
	"github.com/txonce/txonce/toolcall"
)

// Refused before anything was sent to the database. Repeating the same call gives the same error.
var (
	// ErrScope is returned when a request has no usable scope.
	ErrScope = errors.New("txidem: a request needs a scope")
	// ErrTool is returned when a request has no usable tool name.
	ErrTool = errors.New("txidem: a request needs a tool name")
	// ErrKey is returned when an explicit idempotency key breaks the rule for keys.
	ErrKey = errors.New("txidem: bad idempotency key")
	// ErrArgs is returned when the arguments are not JSON that has one canonical form.
	ErrArgs = errors.New("txidem: bad arguments")
	// ErrPolicy is returned when a request's policy has a bad field, which it names.
	ErrPolicy = errors.New("txidem: bad policy")
	// ErrNested is returned when Run is called by a handler of Run: two transactions cannot commit as one, and calls
	// that each wait for a second connection of the same pool can wait for each other.
	// It is also returned by RunTx for a call inside itself.
	ErrNested = errors.New("txidem: a call inside the handler of another call; make it by RunTx in that handler's tx, or behind that call")
	// ErrTxNotOpen is returned by RunTx when the transaction it is given has ended, or was aborted by an error.
	ErrTxNotOpen = errors.New("txidem: RunTx needs an open transaction; begin one, and commit it after RunTx has returned")
	// ErrBatchSQL is returned by RunBatch, and by RunLeased for what its handler queues by Call.AtFinish, for a statement that
	// cannot be part of the transaction: one that begins or ends a transaction, or several in one text. RunTx returns it for a
	// queued text that is not one statement.
	ErrBatchSQL = errors.New("txidem: the statement cannot be queued")
)

// Decided by looking at the record. Nothing was run.
var (
	// ErrInProgress is returned when another call of the same identity is running and did not end within Policy.Wait.
	// It is always an [*InProgressError].
	ErrInProgress = errors.New("txidem: the same call is in progress")
	// ErrKeyReused is returned when the key was used for other arguments. It is always a [*KeyReusedError].
	ErrKeyReused = errors.New("txidem: the idempotency key was used for other arguments")
	// ErrExpired is returned under Policy.OnExpired = Refuse when the call was done and its answer is no longer kept. It is
	// always an [*ExpiredError].
	ErrExpired = errors.New("txidem: the call was done earlier and its answer is no longer kept")
	// ErrNotAllowed is returned when Config.Authorize refuses a replay. It wraps the reason.
	ErrNotAllowed = errors.New("txidem: the caller may not have the recorded answer")
	// ErrOtherWay is returned when the identity has a record of RunLeased and the call is not made by RunLeased, or the
	// other way round: what one of them may repeat, the other may not.
	ErrOtherWay = errors.New("txidem: the same call was made in another way")
	// ErrBlocked is returned by RunLeased under Policy.OnLeaseLost = Block when an attempt was cut off and may have had its
	// effect: at first wrapping what cut it off, and to each call that comes later. Find out from the other system whether it
	// did. If so, make the call once more with an ask that returns the answer, which is recorded then. If not, let
	// Store.Forget free the call: the next one runs, with another downstream key. A wrong "not" has the effect a second time.
	ErrBlocked = errors.New("txidem: an attempt was cut off and may have had its effect; find out: if it had, call RunLeased with an ask that returns the answer, if not, free the call with Store.Forget")
	// ErrQuota is returned when the caller's scope has as many live records as Policy.Quota allows.
	ErrQuota = errors.New("txidem: the scope has too many live records; wait for some to expire")
	// ErrStaleSnapshot is returned by RunTx above READ COMMITTED when the call was made meanwhile and the caller's
	// transaction is too old to see it. Roll it back and repeat it from its beginning.
	ErrStaleSnapshot = errors.New("txidem: the call was made meanwhile, and the transaction's snapshot is too old to see it; roll back and repeat the transaction")
	// ErrRecord is returned when a record cannot be read as what this call needs: its stored identity is another one
	// (the hashes collide, or somebody edited the table), or its answer does not decode into the result's type.
	ErrRecord = errors.New("txidem: the stored record does not fit the call")
)

// The handler did something that cannot be protected. What it wrote through tx was rolled back, but for what is said at
// ErrHandlerEndedTx and ErrTxOver.
var (
	// ErrHandlerEndedTx is returned when the handler ended its transaction by raw SQL (COMMIT, ROLLBACK). What it
	// committed stays, so a failure is recorded in place of an answer and a retry does not repeat it.
	ErrHandlerEndedTx = errors.New("txidem: the handler ended its transaction by SQL; return nil to commit or an error to roll back")
	// ErrTxManaged is returned by Commit and Rollback of the handler's tx, which do nothing else: Run commits when the
	// handler returns nil, and rolls back when it returns an error. So a deferred Rollback is harmless.
	ErrTxManaged = handlertx.ErrManaged
	// ErrTxAborted is returned when an SQL statement of the handler failed and the handler returned no error: Postgres
	// would answer COMMIT with a rollback.
	ErrTxAborted = errors.New("txidem: a statement of the handler failed and the handler returned no error; return the error")
	// ErrHandlerPanicked is returned when the handler panicked. It is always a [*PanicError].
	ErrHandlerPanicked = errors.New("txidem: the handler panicked")
	// ErrIdleTooLong is returned when the handler thought for longer than Policy.IdleInTx without SQL: Postgres ended
	// the transaction, so that a vanished client cannot hold its claim. Slow work belongs outside the transaction.
	ErrIdleTooLong = errors.New("txidem: the handler was idle in its transaction for longer than Policy.IdleInTx")
	// ErrTxOver is returned by the handler's tx when it is used after the handler has returned. It has no other effect.
	ErrTxOver = handlertx.ErrOver
	// ErrAnswer is returned when the handler's result cannot be encoded as JSON.
	ErrAnswer = errors.New("txidem: the handler's result cannot be encoded")
	// ErrCodec is returned when Config.Codec cannot encode the answer of a call, which is rolled back then, or cannot decode
	// a recorded one, which stays as it is.
	ErrCodec = errors.New("txidem: the codec failed")
	// ErrRowCount is returned by RunBatch when a statement of MustAffect changed another number of rows.
	ErrRowCount = errors.New("txidem: a statement changed another number of rows than it must")
	// ErrLeaseLost is the cause (context.Cause) with which RunLeased cancels its handler before its lease ends, because it
	// could not be renewed or belongs to another attempt by now. It is also in the error of the call then.
	ErrLeaseLost = errors.New("txidem: the lease is lost")
	// ErrAnswerTooLarge is returned when the encoded result is larger than Policy.MaxAnswer.
	ErrAnswerTooLarge = errors.New("txidem: the handler's result is larger than Policy.MaxAnswer")
)

// About the database.
var (
	// ErrUnavailable is returned when the database could not be asked. Nothing was written; the call can be repeated.
	ErrUnavailable = errors.New("txidem: the database cannot be asked; repeat the same call with the same key")
	// ErrOutcomeUnknown is returned when the answer to COMMIT was lost, or a leased attempt was cut off: the call may have
	// succeeded or not. Repeat it with the same key: if it committed, its answer is replayed. Status and Resolve return it
	// when the server that they ask cannot know. It is always an [*OutcomeUnknownError].
	ErrOutcomeUnknown = errors.New("txidem: the outcome is unknown")
	// ErrPermission is returned when the role lacks a privilege on the table. The grants are in the documentation of
	// package migrations.
	ErrPermission = errors.New("txidem: the role lacks a privilege; see the grants in the documentation of package migrations")
	// ErrNotMigrated is returned when the table is missing or has another shape.
	ErrNotMigrated = errors.New("txidem: the schema is not migrated; run migrations.Up first")
	// ErrServerTooOld is returned when the server is older than PostgreSQL 14.
	ErrServerTooOld = errors.New("txidem: PostgreSQL 14 or newer is needed")
)

// InProgressError says that the call is running elsewhere.
type InProgressError struct {
	ID         toolcall.ID
	Tool       string
	RetryAfter time.Duration // when to repeat the same call with the same key
}

// Error names the call and when to repeat it.
func (e *InProgressError) Error() string {
	return fmt.Sprintf("%v: %s %s; repeat the same call with the same key in %v", ErrInProgress, e.Tool, e.ID, e.RetryAfter)
}

// Is makes errors.Is(err, ErrInProgress) true.
func (e *InProgressError) Is(target error) bool { return target == ErrInProgress }

// KeyReusedError says that the key belongs to a call with other arguments.
type KeyReusedError struct {
	ID    toolcall.ID
	Tool  string
	Paths []string // JSON Pointers of the arguments that differ, where they are known; never their values
}

// Error names the call and the arguments that differ.
func (e *KeyReusedError) Error() string {
	if len(e.Paths) == 0 {
		return fmt.Sprintf("%v: %s %s; use a new key for a new intent", ErrKeyReused, e.Tool, e.ID)
	}
	return fmt.Sprintf("%v: %s %s differs at %q; use a new key for a new intent", ErrKeyReused, e.Tool, e.ID, e.Paths)
}

// Is makes errors.Is(err, ErrKeyReused) true.
func (e *KeyReusedError) Is(target error) bool { return target == ErrKeyReused }

// ExpiredError says that the call was done and its answer is no longer kept.
type ExpiredError struct {
	ID         toolcall.ID
	Tool       string
	FinishedAt time.Time // by the database's clock
}

// Error names the call and when it ended.
func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%v: %s %s, at %s; use a new key for a new intent", ErrExpired, e.Tool, e.ID, e.FinishedAt.UTC().Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrExpired) true.
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// OutcomeUnknownError says that COMMIT was sent and its answer was lost, that a leased attempt was cut off and the next call
// finds out, or that Status or Resolve asked a server that cannot know.
type OutcomeUnknownError struct {
	ID   toolcall.ID
	Tool string
	Err  error // what happened to the connection or the attempt
}

// Error names the call and what to do.
func (e *OutcomeUnknownError) Error() string {
	return fmt.Sprintf("%v: %s %s: %v; repeat the same call with the same key to learn it", ErrOutcomeUnknown, e.Tool, e.ID, e.Err)
}

// Is makes errors.Is(err, ErrOutcomeUnknown) true.
func (e *OutcomeUnknownError) Is(target error) bool { return target == ErrOutcomeUnknown }

// Unwrap returns Err.
func (e *OutcomeUnknownError) Unwrap() error { return e.Err }

// PanicError carries what the handler panicked with.
type PanicError struct {
	Value any    // what recover returned
	Stack []byte // of the handler's goroutine, as debug.Stack has it
}

// Error has the value and not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", ErrHandlerPanicked, e.Value) }

// Is makes errors.Is(err, ErrHandlerPanicked) true.
func (e *PanicError) Is(target error) bool { return target == ErrHandlerPanicked }

// Fail makes the error that a handler returns when the request itself is at fault: nothing that the handler wrote is
// kept, the failure is recorded, and the same call hears it again until the record expires. code is for programs,
// message for people and models.
// Both should be valid UTF-8; what is not is replaced.
func Fail(code, message string) error {
	return &toolcall.Failure{Code: strings.ToValidUTF8(code, "\uFFFD"), Message: strings.ToValidUTF8(message, "\uFFFD")}
}

// Retryable reports whether it makes sense to repeat the same call with the same key after err. It never is unsafe to:
// the key sees to that. It is pointless when the request, the handler or the set-up is at fault.
//
// Of an error that is not this package's it knows nothing and says true: those of the handler's own, such as a violated
// constraint (23505), and a context that ended, are for the caller to tell apart, in front of it. So bound the repeats, wait
// between them, and for as long as [InProgressError] says.
func Retryable(err error) bool {
	if err == nil {
		return false
	}
	if _, failed := failureIn(err); failed {
		return false
	}
	if errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrBlocked) { // whatever of the below it wraps: a repeated call finds out
		return true
	}
	for _, final := range [...]error{
		ErrScope, ErrTool, ErrKey, ErrArgs, ErrPolicy, ErrNested, ErrTxNotOpen, ErrBatchSQL, ErrKeyReused, ErrOtherWay, ErrBlocked, ErrExpired,
		ErrNotAllowed, ErrRecord, ErrHandlerEndedTx, ErrTxManaged, ErrTxAborted, ErrCodec, ErrRowCount,
		ErrTxOver, ErrHandlerPanicked, ErrIdleTooLong, ErrAnswer, ErrAnswerTooLarge, ErrPermission, ErrNotMigrated, ErrServerTooOld,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// NotDone marks the error of a handler of RunLeased that is known to have done nothing: the request never left, or the other
// system said no. The claim is removed and the next call runs, unless an earlier attempt of the call was cut off: that one may
// have had its effect. Without NotDone, an error leaves open whether the effect happened. It returns nil for nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDoneError{err}
}

type notDoneError struct{ err error }

func (e *notDoneError) Error() string { return e.err.Error() }
func (e *notDoneError) Unwrap() error { return e.err }

// The SQLSTATEs that our own function raises.
const (
	codeBusy      = "TX001"
	codeRowCount  = "TX002"
	codeLeaseLost = "TX003"
)

// Classes of SQLSTATE that the core tells apart.
const (
	codeUniqueViolation = "23505"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
	codeUndefinedObject = "42704"
	codeUndefinedFunc   = "42883"
	codeInvalidText     = "22P02"
	codeIdleInTxTimeout = "25P03"
	codeNoTx            = "25P01"
	codeTxAborted       = "25P02"
	codeNoSavepoint     = "3B001"
	codePrivilege       = "42501"
)

// hasCode reports whether err comes from the server with one of the SQLSTATEs.
func hasCode(err error, codes ...string) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}

// isFull reports whether the server has no room for what it was asked: disk, memory, connections (class 53).
func isFull(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Code, "53")
}

// contextError returns the caller's own reason to give up, if there is one: it is not the database's fault.
func contextError(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("txidem: gave up: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("txidem: gave up: %w", ctx.Err())
}
