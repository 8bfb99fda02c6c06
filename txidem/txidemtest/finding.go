package txidemtest

import (
	"errors"
	"fmt"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// Finding is something that a tool does wrong.
type Finding struct {
	Point   string // what was done to the call, such as "process killed inside the record and commit"
	Problem string // what came of it, and the likely cause
}

// String is the point and the problem in one line.
func (f Finding) String() string { return fmt.Sprintf("txidemtest: %s: %s", f.Point, f.Problem) }

// The likely causes, for the author of the tool.
const (
	causeOutside = "something writes outside tx (by the pool, in a goroutine or a defer, before the call), or each attempt has another key"
	causeMemory  = "an error is swallowed, or the answer comes from memory that a rollback does not undo"
	causeEarly   = "something writes outside tx (by the pool, in a goroutine or a defer), or the call goes on after its error"
	causeAnswer  = "the answer is made outside the handler, or an error is swallowed; return the recorded answer (Result.Raw) and the error as they are"
)

// rules are the errors of txidem which say that a call does what cannot be protected, and what to do instead.
var rules = [...]struct {
	err    error
	advice string
}{
	{txidem.ErrHandlerEndedTx, "the handler ended its transaction by raw SQL: leave COMMIT and ROLLBACK to txidem"},
	{txidem.ErrTxAborted, "the handler swallowed the error of an SQL statement: return it"},
	{txidem.ErrTxOver, "a tx was kept and used after its handler had returned: use the tx of each run, and only in it"},
	{txidem.ErrTxManaged, "the handler commits or rolls back its tx: return nil or an error instead"},
	{txidem.ErrNested, "the handler makes a protected call: write through its tx instead"},
	{txidem.ErrKeyReused, "a repeated call has the same key and other arguments: derive them from the intent and nothing else"},
	{txidem.ErrExpired, "the record expired before the call was repeated: use a longer Retention or Window"},
	{txidem.ErrIdleTooLong, "the handler does slow work inside its transaction: do it before the call or in a job"},
	{txidem.ErrAnswer, "the handler's result is no JSON"},
	{txidem.ErrAnswerTooLarge, "the handler's result is too large: return a reference to it"},
}

// broken returns which rule a call broke, or nothing.
func (s said) broken() string {
	for _, r := range rules {
		if errors.Is(s.err, r.err) {
			return fmt.Sprintf("%s (%v)", r.advice, s.err)
		}
	}
	var failure *toolcall.Failure
	if errors.As(s.err, &failure) && failure.Code == txidem.CodeHandlerEndedTx {
		return fmt.Sprintf("%s (%v)", rules[0].advice, s.err)
	}
	return ""
}
