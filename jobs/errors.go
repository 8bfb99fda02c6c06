package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txonce/txonce/toolcall"
)

// Refused before anything was written. Submitting the same again gives the same error.
var (
	// ErrScope is returned when a job has no usable scope: outside a protected call SubmitOpts.Scope is mandatory, inside
	// it must be empty or the call's.
	ErrScope = errors.New("jobs: a job needs a scope")
	// ErrArgs is returned when the arguments cannot be encoded as JSON, or are larger than Config.MaxArgs.
	ErrArgs = errors.New("jobs: bad arguments")
	// ErrOptions is returned when an option is bad, which it names: a deadline in the past, a priority that is none.
	ErrOptions = errors.New("jobs: bad option")
	// ErrUnknownKind is returned when the definition was not given to New of the runner.
	ErrUnknownKind = errors.New("jobs: the runner does not know this kind of job; give its definition to jobs.New")
	// ErrOtherTx is returned by SubmitTx inside a protected call when it is given another transaction than the call's:
	// the job and the call's record would not commit together.
	ErrOtherTx = errors.New("jobs: SubmitTx needs the transaction of the call it is made in; pass on the handler's tx")
	// ErrNoClient is returned by a runner that shares its client, before UseClient.
	ErrNoClient = errors.New("jobs: the runner has no River client yet; call UseClient")
)

// About one job.
var (
	// ErrNotFound is returned when the scope has no job with this id: there never was one, it is another scope's, or its
	// retention is over. Which of them is not told.
	ErrNotFound = errors.New("jobs: no such job in this scope")
	// ErrFinished is returned by Cancel when the job has ended. Status says how; that does not change.
	ErrFinished = errors.New("jobs: the job has ended and cannot be cancelled; ask for its status")
	// ErrBusy is returned by Cancel when the job is just being committed and that takes long. Ask for its status.
	ErrBusy = errors.New("jobs: the job is being committed; ask for its status")
)

// What the context of a running attempt is cancelled with (context.Cause), and what the attempt may not ignore.
var (
	// ErrCancelled: somebody cancelled the job.
	ErrCancelled = errors.New("jobs: the job was cancelled")
	// ErrLeaseLost: another attempt has the job by now. This one cannot commit.
	ErrLeaseLost = errors.New("jobs: another attempt has the job by now")
	// ErrTimeout: the attempt took longer than Options.Timeout.
	ErrTimeout = errors.New("jobs: the attempt took longer than Options.Timeout")
	// ErrDeadline: the deadline of the job has passed.
	ErrDeadline = errors.New("jobs: the deadline of the job has passed")
	// ErrStopping: the runner stops. The job is handed back and runs elsewhere; the attempt does not count.
	ErrStopping = errors.New("jobs: the runner is stopping")
)

// What a worker did wrong. The attempt has failed, and nothing that it wrote through tx is there, but for what is said at
// ErrEndedTx.
var (
	// ErrNoCommit: the work returned neither an error nor a commit function.
	ErrNoCommit = errors.New("jobs: the work returned neither a commit function nor an error; return one of them")
	// ErrEndedTx: the commit function ended its transaction by raw SQL. What it committed stays, so the job fails and is not
	// repeated.
	ErrEndedTx = errors.New("jobs: the commit function ended its transaction by SQL; return nil to commit or an error to roll back")
	// ErrTxAborted: a statement of the commit function failed and it returned no error.
	ErrTxAborted = errors.New("jobs: a statement of the commit function failed and it returned no error; return the error")
	// ErrPanicked: the work or the commit function panicked, or ended its goroutine.
	ErrPanicked = errors.New("jobs: the worker panicked")
	// ErrAnswer: the result cannot be encoded as JSON.
	ErrAnswer = errors.New("jobs: the result cannot be encoded")
	// ErrAnswerTooLarge: the encoded result is larger than Options.MaxAnswer. The job fails.
	ErrAnswerTooLarge = errors.New("jobs: the result is larger than Options.MaxAnswer")
)

// About the database.
var (
	// ErrUnavailable is returned when the database could not be asked.
	ErrUnavailable = errors.New("jobs: the database cannot be asked; try again")
	// ErrOutcomeUnknown: the answer to COMMIT was lost, and the database cannot be asked for the outcome. The job stays as
	// it is; the next attempt finds out, before it does anything.
	ErrOutcomeUnknown = errors.New("jobs: the outcome of the commit is unknown")
	// ErrNotMigrated is returned when a table is missing or has another shape.
	ErrNotMigrated = errors.New("jobs: the schema is not migrated; run migrations.Up first")
	// ErrPermission is returned when the role lacks a privilege.
	ErrPermission = errors.New("jobs: the role lacks a privilege; see the grants in the documentation of package migrations")
)

// The codes of failures that this package gives a job. Those of the work's own come from [Fail].
const (
	CodeBadArgs           = "bad_args"           // the arguments do not decode into the definition's type
	CodeAttemptsExhausted = "attempts_exhausted" // the last of MaxAttempts did not succeed
	CodeDeadline          = "deadline_exceeded"  // the deadline passed before an attempt could commit
	CodeResultTooLarge    = "result_too_large"   // ErrAnswerTooLarge
	CodeEndedTx           = "handler_ended_tx"   // ErrEndedTx
)

// Fail makes the error with which a worker ends its job at once: the request itself is at fault, and another attempt would
// fail in the same way. The failure is recorded as the answer of the job. code is for programs, message for people and
// models: it is shown to the caller, unlike other errors. Failures of other packages of txonce do the same.
func Fail(code, message string) error {
	return &toolcall.Failure{Code: strings.ToValidUTF8(code, "\uFFFD"), Message: strings.ToValidUTF8(message, "\uFFFD")}
}

// failureIn returns the failure that err asks to be recorded, if it does.
func failureIn(err error) (*toolcall.Failure, bool) {
	var failure *toolcall.Failure
	return failure, errors.As(err, &failure) && failure != nil
}

// The SQLSTATEs that mean something here.
const (
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeLockTimeout     = "55P03"
	codePrivilege       = "42501"
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
	codeNoSchema        = "3F000"
	codeNoSetting       = "42704"
	codeBadText         = "22P02"
	codeNotOurs         = "TXJ01" // raised by sqlDone
	codeOverdue         = "TXJ02" // raised by sqlDone
)

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

// explain says what an error of the database means for the caller.
func explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("jobs: gave up: %w", context.Cause(ctx))
	case hasCode(err, codePrivilege):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case hasCode(err, codeUndefinedTable, codeUndefinedColumn, codeNoSchema):
		return fmt.Errorf("%w: %w", ErrNotMigrated, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
