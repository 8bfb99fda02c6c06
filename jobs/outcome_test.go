package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

// lastError is what operators are told.
func (f *fixture) lastError(id toolcall.ID) string {
	f.t.Helper()
	return get[string](f, `select last_error from txonce.job where id = $1::uuid`, uuidOf(id))
}

// TestOutcome_J06_ArgumentsThatDoNotDecode: a release that takes others fails such jobs at once.
func TestOutcome_J06_ArgumentsThatDoNotDecode(t *testing.T) {
	t.Parallel()
	type newIn struct {
		Label int `json:"label"`
	}
	before := plainly("report", &Options{Queue: idle})
	after := Define("report", func(context.Context, *Job[newIn]) (Commit[out], error) { return commits("wrong"), nil }, nil)
	f := setup(t, nil, before)
	f.start(f.another(nil, after))
	s := f.await(submit(f, before, in{Label: "seven"}, &SubmitOpts{Scope: scope, Queue: defaultQueue}), toolcall.StateFailed)
	if s.Failure.Code != CodeBadArgs || s.Job.Attempts != 1 || !strings.Contains(f.lastError(s.ID), "cannot unmarshal string") {
		t.Errorf("%+v, %+v, %s", s.Failure, s.Job, f.lastError(s.ID))
	}
	f.effectsAre(map[string]int{})
}

// TestOutcome_J06_WhatCannotBeKept: with the result, the effect is gone.
func TestOutcome_J06_WhatCannotBeKept(t *testing.T) {
	t.Parallel()
	const limit = 100
	fits := len(`{"label":"","by":""}`)
	long := Define("long", func(_ context.Context, job *Job[in]) (Commit[out], error) {
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			return out{Label: job.Args.Label}, write(ctx, tx, "long")
		}, nil
	}, &Options{MaxAnswer: limit})
	channel := Define("channel", func(context.Context, *Job[in]) (Commit[chan int], error) {
		return func(ctx context.Context, tx pgx.Tx) (chan int, error) { return nil, write(ctx, tx, "channel") }, nil
	}, &Options{MaxAttempts: 2, Backoff: noPause})
	f := setup(t, nil, long, channel)
	f.start(f.Runner)
	most := submit(f, long, in{Label: strings.Repeat("x", limit-fits)}, nil)
	more := submit(f, long, in{Label: strings.Repeat("x", limit-fits+1)}, nil)
	never := submit(f, channel, in{}, nil)
	f.await(most, toolcall.StateSucceeded)
	if s := f.await(more, toolcall.StateFailed); s.Failure.Code != CodeResultTooLarge || s.Job.Attempts != 1 || !strings.Contains(f.lastError(more), "101 bytes, the limit is 100") {
		t.Errorf("too large: %+v, %+v, %s", s.Failure, s.Job, f.lastError(more))
	}
	if s := f.await(never, toolcall.StateFailed); s.Failure.Code != CodeAttemptsExhausted || s.Job.Attempts != 2 || !strings.Contains(f.lastError(never), ErrAnswer.Error()) {
		t.Errorf("not JSON: %+v, %+v, %s", s.Failure, s.Job, f.lastError(never))
	}
	f.effectsAre(map[string]int{"long": 1})
}

// TestOutcome_J06_TooLargeBehindACommit: what the commit half committed stays, so "nothing was changed" would be wrong.
func TestOutcome_J06_TooLargeBehindACommit(t *testing.T) {
	t.Parallel()
	d, calls := halves(&Options{MaxAnswer: 1}, func(ctx context.Context, tx pgx.Tx, _ int) error {
		_, err := tx.Exec(ctx, `commit; begin`, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	f := setup(t, still(), d)
	id := submit(f, d, in{Label: "a"}, nil)
	if err := f.answer(t.Context(), d.def, id); !errors.Is(err, ErrEndedTx) || calls.Load() != 1 {
		t.Errorf("%v, %d calls; want ErrEndedTx, 1", err, calls.Load())
	}
	f.ended(id, toolcall.StateFailed, 1, CodeEndedTx)
	f.effectsAre(map[string]int{"a": 1})
}

// pointerError panics when it is asked for its text and is nil: what a function returns by mistake that declares its error as a
// pointer.
type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// TestOutcome_J06_ErrorThatPanics is a failed attempt like any other, from either half: the job does not wait for its lease.
func TestOutcome_J06_ErrorThatPanics(t *testing.T) {
	t.Parallel()
	var none *pointerError
	opts := &Options{MaxAttempts: 1}
	work := Define("work", func(context.Context, *Job[in]) (Commit[out], error) { return nil, none }, opts)
	half := Define("half", func(context.Context, *Job[in]) (Commit[out], error) {
		return func(ctx context.Context, tx pgx.Tx) (out, error) {
			return out{}, errors.Join(write(ctx, tx, "half"), fmt.Errorf("wrapped: %w", none), none)
		}, nil
	}, opts)
	f := setup(t, still(), work, half)
	for _, d := range []*Definition[in, out]{work, half} {
		id := submit(f, d, in{}, nil)
		if err := f.answer(t.Context(), d.def, id); !isError(err) {
			t.Errorf("%s: the doorbell: %v", d.Kind(), err)
		}
		f.ended(id, toolcall.StateFailed, 1, CodeAttemptsExhausted)
		f.wantError(id, ErrPanicked.Error())
	}
	f.effectsAre(map[string]int{})
}

// TestOutcome_J06_ArgumentsAndResultsOfAllSizes come through byte for byte, whatever is in them.
func TestOutcome_J06_ArgumentsAndResultsOfAllSizes(t *testing.T) {
	t.Parallel()
	echo := Define("echo", func(_ context.Context, job *Job[json.RawMessage]) (Commit[json.RawMessage], error) {
		return func(context.Context, pgx.Tx) (json.RawMessage, error) { return job.Args, nil }, nil
	}, nil)
	f := setup(t, nil, echo)
	f.start(f.Runner)
	for label, args := range map[string]string{
		"null": "null", "empty": "{}", "a digit too many": `{"n":12345678901234567890.12345678901234567890}`,
		"signs": `["\u0000","\\","'","\"","é","\ud800"]`, "large": `"` + strings.Repeat("x", 1<<20-2) + `"`,
	} {
		s := f.await(submit(f, echo, json.RawMessage(args), nil), toolcall.StateSucceeded)
		if got, err := echo.Result(s); err != nil || string(got) != args || string(s.Answer) != args {
			t.Errorf("%s: %.100s, %v", label, got, err)
		}
	}
}

// TestOutcome_J06_FailuresAreToldAsTheyAre, with any text in them.
func TestOutcome_J06_FailuresAreToldAsTheyAre(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]toolcall.Failure{
		"plain": {Code: "no", Message: "not this one"}, "empty": {}, "signs": {Code: "a\x00b", Message: "\\ ' \" é \n\u2028"},
		"no text": {Code: "x\uFFFD", Message: "\uFFFD"}, "long": {Code: "no", Message: strings.Repeat("x", 1<<20)},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			code, message := want.Code, want.Message
			if label == "no text" {
				code, message = "x\xff", "\xc3"
			}
			d := Define("report", worksThen(fmt.Errorf("wrapped: %w", Fail(code, message))), nil)
			f := setup(t, nil, d)
			f.start(f.Runner)
			s := f.await(submit(f, d, in{}, nil), toolcall.StateFailed)
			if *s.Failure != want || s.Job.Attempts != 1 {
				t.Errorf("%.200q, %+v", s.Failure, s.Job)
			}
			var failure *toolcall.Failure
			if _, err := d.Result(s); !errors.As(err, &failure) || *failure != want {
				t.Errorf("Result gives %.200v", err)
			}
		})
	}
}

// TestTexts_M05_WhatAgentsReadIsAContract: the handle, and the failures that are not the work's own.
func TestTexts_M05_WhatAgentsReadIsAContract(t *testing.T) {
	t.Parallel()
	id, err := toolcall.ParseID("018f0000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	handle, _ := json.MarshalIndent((&order{id: id, kind: "build_report"}).handle(), "", "  ")
	fmt.Fprintf(&b, "the handle\n%s\n\n", handle)
	var failures []*toolcall.Failure
	bad := Define("report", worksThen(nil), nil)
	_, decode := bad.def.run(t.Context(), &attempt{args: []byte("[]")})
	for _, err := range []error{decode, tooLarge(2, 1), endedTx()} {
		if f, is := failureIn(err); is {
			failures = append(failures, f)
		}
	}
	failures = append(failures, exhausted(1), exhausted(5), overdue())
	for _, f := range failures {
		fmt.Fprintf(&b, "%s\n\t%s\n", f.Code, f.Message)
	}
	for _, err := range []error{ErrNotFound, ErrFinished, ErrBusy} {
		fmt.Fprintf(&b, "error\n\t%s\n", err)
	}
	goldenIs(t, "texts.golden", b.String())
}
