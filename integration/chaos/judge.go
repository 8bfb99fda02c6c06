package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/txonce/txonce/statustool"
)

// evidence is all that there is to judge a run by.
type evidence struct {
	intents  []intent
	ops      []op
	jobsSaid map[string]statustool.Report // by the id of the job
	arrivals []arrival                    // in order
	books    books
}

// verdict is what the evidence says.
type verdict struct {
	effects      int
	duplicates   int // effects of an intent beside its first one
	lost         int // intents that were said to be done, and have no effect
	wrongAnswers int // intents with answers that are not true
	jobsStuck    int // jobs that have not ended
	messagesLost int // messages that committed and never arrived

	complaints []string // one for each of these, and what else must not be
}

func (v *verdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

type judgement struct {
	*verdict
	evidence
	answers map[int]said // by intent
	told    map[int]said // what get_status said last
	effects map[int][]effect
	jobs    map[int][]job
	ledger  map[int][]entry
	wrong   map[int]bool // intents with wrong answers
}

// judge compares what was told with what the database and the receiver have. What the checker says of the order of answers is in
// seen.
func judge(e evidence, seen opinion) verdict {
	v := verdict{effects: len(e.books.effects)}
	j := &judgement{
		verdict: &v, evidence: e, answers: make(map[int]said), told: make(map[int]said), effects: make(map[int][]effect),
		jobs: make(map[int][]job), ledger: make(map[int][]entry), wrong: make(map[int]bool),
	}
	j.sort()
	for _, n := range slices.Sorted(maps.Keys(seen.wrong)) {
		j.isWrong(n, "%s", seen.wrong[n])
	}
	for _, i := range e.intents {
		j.intent(i)
	}
	j.strangers()
	j.messages()
	j.order()
	v.wrongAnswers = len(j.wrong)
	return v
}

// sort puts everything to the intent it belongs to.
func (j *judgement) sort() {
	for _, o := range j.ops {
		if _, before := j.answers[o.Intent]; !before && o.Said.Kind.ends() {
			j.answers[o.Intent] = o.Said
		}
		if o.Asked.Question {
			j.told[o.Intent] = o.Said
		}
	}
	for _, e := range j.books.effects {
		j.effects[e.Intent] = append(j.effects[e.Intent], e)
	}
	for _, job := range j.books.jobs {
		j.jobs[job.Intent] = append(j.jobs[job.Intent], job)
	}
	for _, e := range j.books.ledger {
		j.ledger[e.Intent] = append(j.ledger[e.Intent], e)
	}
}

// isWrong says what is not true of an answer of an intent.
func (j *judgement) isWrong(intent int, format string, args ...any) {
	j.wrong[intent] = true
	j.complain("intent %d: %s", intent, fmt.Sprintf(format, args...))
}

// intent compares the answer of an intent with what is there.
func (j *judgement) intent(i intent) {
	answer, ok := j.answers[i.N]
	if !ok {
		j.complain("intent %d (%s) has no answer in the end", i.N, i.Tool)
	} else if told := j.told[i.N]; !told.Kind.ends() { // one that ends is in the history, and the checker compares it
		j.complain("intent %d (%s) has an answer, and get_status says in the end: %s %s", i.N, i.Tool, told.Kind, told.Detail)
	}
	if n := len(j.effects[i.N]); n > 1 {
		j.duplicates += n - 1
		j.complain("intent %d (%s) has %d effects: %+v", i.N, i.Tool, n, j.effects[i.N])
	}
	if i.Tool == report {
		j.job(i, answer)
		return
	}
	if !ok {
		return
	}
	if len(j.jobs[i.N]) > 0 {
		j.complain("intent %d (%s) has a job", i.N, i.Tool)
	}
	j.done(i, answer.Kind == succeeded, answer.Try, answer.Run)
	if (answer.Kind == failed) != i.Fails {
		j.isWrong(i.N, "it %s, and should fail: %v", answer.Kind, i.Fails)
	}
	want := 0
	if answer.Kind == succeeded && i.Tool == notify {
		want = i.Letters
	}
	if n := len(j.ledger[i.N]); n != want {
		j.complain("intent %d has %d messages, not %d", i.N, n, want)
	}
	for _, e := range j.ledger[i.N] {
		if e.Try != answer.Try || !strings.HasPrefix(e.Name, fmt.Sprintf("%d/%s/", i.N, answer.Run)) {
			j.isWrong(i.N, "run %s of try %d was said to have done it, and it has the message %+v", answer.Run, answer.Try, e)
		}
	}
}

// done compares the effect of an intent with what was said: whether it was done, by which try, and by which run of the handler or attempt
// of the job.
func (j *judgement) done(i intent, done bool, try int, run string) {
	switch all := j.effects[i.N]; {
	case done && len(all) == 0:
		j.lost++
		j.complain("intent %d (%s) was said to be done, and has no effect", i.N, i.Tool)
	case !done && len(all) > 0:
		j.isWrong(i.N, "it was said to have failed, and has the effect %+v", all[0])
	case done && (all[0].Try != try || all[0].By != run):
		j.isWrong(i.N, "run %s of try %d was said to have done it, and the effect is %+v", run, try, all[0])
	}
}

// job compares the job of an intent with its answer and with its effect.
func (j *judgement) job(i intent, answer said) {
	all := j.jobs[i.N]
	if answer.Kind != succeeded {
		if len(all) > 0 || len(j.effects[i.N]) > 0 {
			j.isWrong(i.N, "it was not said to have a job, and has %+v and the effects %+v", all, j.effects[i.N])
		}
		return
	}
	if len(all) != 1 || all[0].ID != answer.Job || all[0].Try != answer.Try {
		j.isWrong(i.N, "it was said to have job %s of try %d, and has %+v", answer.Job, answer.Try, all)
		return
	}
	job := all[0]
	switch {
	case !job.ended():
		j.jobsStuck++
		j.complain("intent %d: job %s is %s in the end; its last attempt: %s", i.N, job.ID, job.State, job.Error)
		return
	case job.failed() != i.Fails:
		j.complain("intent %d: job %s is %s, and should fail: %v", i.N, job.ID, job.State, i.Fails)
	}
	j.done(i, !job.failed(), job.Try, job.By)
	if r, asked := j.jobsSaid[job.ID]; !asked || string(r.State) != job.State || runIn(r) != job.By {
		j.isWrong(i.N, "job %s is %s, by run %q, and was said to be %q, by %q", job.ID, job.State, job.By, r.State, runIn(r))
	}
}

// runIn is the run of the job that is named in its result, where it has one.
func runIn(r statustool.Report) string {
	var result receipt
	_ = json.Unmarshal(r.Result, &result) // what is none names none
	return result.Run
}

func (j job) failed() bool { return j.State == "failed" }
func (j job) ended() bool  { return j.State == "succeeded" || j.failed() }

// strangers looks for what belongs to no intent.
func (j *judgement) strangers() {
	known := make(map[int]bool)
	for _, i := range j.intents {
		known[i.N] = true
	}
	for _, e := range j.books.effects {
		if !known[e.Intent] {
			j.complain("nobody asked for the effect %+v", e)
		}
	}
	for _, job := range j.books.jobs {
		if !known[job.Intent] {
			j.complain("nobody asked for job %+v", job)
		}
	}
}
