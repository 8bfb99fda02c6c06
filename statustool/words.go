package statustool

import (
	"fmt"
	"math"
	"time"

	"github.com/txonce/txonce/toolcall"
)

// words say what to do next. They are a contract: testdata/texts.golden has them all.
type words struct {
	// ask tells how to ask for the id again and wait for the end, as an order without a capital: "call get_status with …".
	ask func(id string) string
}

// notInHandlersHands is the code of a failure behind which it is not known what was done: the handler ended its transaction itself.
const notInHandlersHands = "handler_ended_tx"

const (
	secondsForCall    = 1 // calls are short
	secondsForJob     = 2
	secondsForTrouble = 5
	mostSeconds       = 60
)

// write puts into the report, whose result is there already, what to do next and when.
func (w words) write(r *Report, s toolcall.Status, now time.Time) {
	job := s.Job != nil
	switch s.State {
	case toolcall.StateNone:
		r.Next = w.none(s.ID)
	case toolcall.StateQueued:
		r.Next, r.RetryAfter = w.queued(s), untilDue(s.Job, now)
	case toolcall.StateRunning:
		r.Next, r.RetryAfter = w.running(s), secondsForCall
		if job {
			r.RetryAfter = secondsForJob
		}
	case toolcall.StateSucceeded:
		r.Next = w.succeeded(r, s)
	case toolcall.StateFailed:
		r.Next = failed(s)
	case toolcall.StateCancelled:
		r.Next = "The job was cancelled before it changed anything. Calling the tool again in the same way gives the same job. " +
			"To have the work done after all, call the tool again with a new idempotency_key."
	case toolcall.StateExpired:
		r.Next = fmt.Sprintf("The call ended at %s, and its answer is no longer kept. Do not repeat it, for it might be done again: look up what it did.",
			s.FinishedAt.UTC().Format(time.RFC3339))
	default: // toolcall.StateUnknown
		r.Next = "An attempt at this call was cut off, and it is not known whether it had its effect. Do not try another way. " +
			"Make exactly the same call once more, with the same arguments and the same idempotency_key: " +
			"the server then finds out what became of it, or says that people have to."
	}
}

func (w words) none(id toolcall.ID) string {
	const repeat = "make exactly the same call again, with the same arguments and the same idempotency_key"
	const longAgo = "If you made it so long ago that it may be no longer on record, do not repeat it: look up what it did."
	if isJob(id) {
		return "There is no job with this id. Take the id from job_id in the answer of the tool that submitted the job. If you do not have that answer, " +
			repeat + ": it is answered with the id of the same job, and the work is not done twice. " + longAgo
	}
	return "There is no record of this call, and nobody is running it. If you made it a short time ago, it was not done: " + repeat + ". It will not be done twice. " + longAgo
}

func (w words) queued(s toolcall.Status) string {
	because := "The job waits for a worker."
	if s.Job != nil && s.Job.Attempts > 0 {
		because = fmt.Sprintf("Attempt %d of %d of the job did not succeed and changed nothing; the next one follows by itself.", s.Job.Attempts, s.Job.MaxAttempts)
	}
	return because + " Do not submit it again and do not try another way. To wait for its end, " + w.ask(s.ID.String()) + "."
}

func (w words) running(s toolcall.Status) string {
	switch {
	case s.Job == nil:
		return "The call is running and has not ended yet. Do not repeat it, do not change it and do not try another way. To wait for its end, " + w.ask(s.ID.String()) + "."
	case s.Job.CancelRequested:
		return "The job was asked to stop and has not ended yet. Do not submit it again. To see how it ends, " + w.ask(s.ID.String()) + "."
	}
	return "The job is running and has not ended yet. Do not submit it again and do not try another way. To wait for its end, " + w.ask(s.ID.String()) + "."
}

func (w words) succeeded(r *Report, s toolcall.Status) string {
	if s.Job != nil {
		return "The job is done. Its result stands in result. Do not submit it again."
	}
	if id, ok := handleIn(r.Result); ok {
		return "The call was done once: it submitted the job whose id stands in result.job_id, and that goes on by itself. Do not repeat the call. " +
			"To wait for the end of the job, " + w.ask(id.String()) + "."
	}
	return "The call was done, once. Its answer stands in result. Do not repeat it."
}

// noResult is for an answer that is there and cannot be shown.
const noResult = "It was done, once, but its answer cannot be read. Do not repeat it and do not try another way; tell the people who run this tool."

// besideText is added where a result has content that is not text.
const besideText = " More of its answer stands in the content behind this."

func failed(s toolcall.Status) string {
	switch {
	case s.Failure != nil && s.Failure.Code == notInHandlersHands:
		return "It ended in a fault of the tool, and it is not known what it did. Do not repeat it and do not try another way; tell the people who run this tool."
	case s.Job != nil:
		return "The job failed for the reason in failure, and nothing was changed. Calling the tool again in the same way gives the same job. " +
			"Correct what the reason says, and call the tool again with a new idempotency_key."
	}
	return "The call failed for the reason in failure, and nothing was changed. The same call fails in the same way as long as it is remembered. " +
		"Correct what the reason says, and call again, with a new idempotency_key if you gave one."
}

// unavailable is the report of what could not be found out. The id is empty where it was not even read.
func (w words) unavailable(id string) *Report {
	again := "ask the same again"
	if id != "" {
		again = w.ask(id)
	}
	return &Report{State: StateUnavailable, ID: id, RetryAfter: secondsForTrouble, Next: fmt.Sprintf(
		"It cannot be found out at the moment how far this is. Do not repeat the call and do not try another way. Wait %d seconds, then %s. "+
			"If that does not help, tell the people who run this tool.", secondsForTrouble, again)}
}

// writeCancel is for the answer to somebody who wanted to cancel.
func (w words) writeCancel(r *Report, s toolcall.Status) {
	switch {
	case !isJob(s.ID) && s.State != toolcall.StateNone:
		r.Next = "This is the id of a call, and a call cannot be cancelled; only jobs can. " + r.Next
	case !isJob(s.ID):
		r.Next = "This is not the id of a job. Take the id from job_id in the answer of the tool that submitted the job."
	case s.State == toolcall.StateSucceeded, s.State == toolcall.StateFailed:
		r.Next = "The job had ended before it could be cancelled. " + r.Next
	}
}

func noCaller() *Report {
	return &Report{State: StateNoCaller, Next: "This server cannot tell who is asking, so it does not say anything. Do not ask again; the people who run this server have to set up who may ask."}
}

// badArgs takes a whole sentence.
func badArgs(problem string) *Report {
	return &Report{State: StateBadArgs, Next: problem + " Nothing was looked up. Correct that and ask again."}
}

// isJob reports whether an id has the form of a job's: a UUID of version 7. Those of calls are of version 8.
func isJob(id toolcall.ID) bool { return id[6]>>4 == 7 }

// untilDue is when it makes sense to ask again for a job that waits. The two clocks may differ.
func untilDue(job *toolcall.JobStatus, now time.Time) int {
	if job == nil || job.NextAttemptAt.IsZero() {
		return secondsForJob
	}
	return int(min(max(math.Ceil(job.NextAttemptAt.Sub(now).Seconds()), secondsForJob), mostSeconds))
}
