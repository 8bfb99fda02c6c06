package main

import (
	"fmt"
	"strings"
)

// verdict is what the history and the database say together.
type verdict struct {
	jobs       int
	executions int // attempts that began
	effects    int
	duplicates int // intents with more than one effect, or with one of a job that failed or was cancelled
	lost       int // answers with a job that is not there, and jobs that succeeded without effect
	stuck      int // jobs that have not ended

	complaints []string // one for each of the last three, and what else must not be
}

func (v *verdict) complain(format string, args ...any) {
	v.complaints = append(v.complaints, fmt.Sprintf(format, args...))
}

type judgement struct {
	*verdict
	history history
	kinds   map[int]kind     // by intent
	rows    map[string]row   // by job
	of      map[int][]row    // by intent
	effects map[int][]effect // by intent
}

// judge compares what was told with what the database says.
func judge(h history, b books) verdict {
	v := verdict{jobs: len(b.jobs), effects: len(b.effects)}
	j := &judgement{
		verdict: &v, history: h, kinds: make(map[int]kind), rows: make(map[string]row), of: make(map[int][]row), effects: make(map[int][]effect),
	}
	for _, r := range b.jobs {
		v.executions += r.Attempts
		j.rows[r.ID] = r
		j.of[r.Intent] = append(j.of[r.Intent], r)
	}
	for _, e := range b.effects {
		j.effects[e.Intent] = append(j.effects[e.Intent], e)
	}
	for _, i := range h.intents {
		j.kinds[i.n] = i.kind
		j.intent(i)
	}
	for _, r := range b.jobs {
		j.job(r)
	}
	j.answers()
	j.deaths()
	j.counts(b)
	return v
}

// intent looks at all that is there of one thing that was wanted once.
func (j *judgement) intent(i intent) {
	effects, undone := j.effects[i.n], false
	for _, e := range effects {
		r, ok := j.rows[e.Job]
		undone = undone || !ok || r.State == "failed" || r.State == "cancelled"
	}
	if len(effects) > 1 || undone {
		j.duplicates++
		j.complain("intent %d has %d effects: %+v; its jobs: %+v", i.n, len(effects), effects, j.of[i.n])
	}
	if len(j.of[i.n]) != 1 {
		j.complain("intent %d has %d jobs: %+v", i.n, len(j.of[i.n]), j.of[i.n])
	}
}

// job looks at the end of one.
func (j *judgement) job(r row) {
	k, known := j.kinds[r.Intent]
	switch {
	case !known:
		j.complain("job %s is of intent %d, which nobody had", r.ID, r.Intent)
		return
	case !r.ended():
		j.stuck++
		j.complain("job %s (%s) is %s in the end, after %d attempts; the last error is %q", r.ID, k, r.State, r.Attempts, r.Error)
		return
	case !k.mayEnd(r.State):
		j.complain("job %s (%s) ended as %s: %s; the last error is %q", r.ID, k, r.State, r.Answer, r.Error)
	case r.State == "failed" && r.Code != map[kind]string{refuses: "refused", dooms: "attempts_exhausted"}[k]:
		j.complain("job %s (%s) failed with %s", r.ID, k, r.Answer)
	}
	if r.State == "succeeded" && len(j.effects[r.Intent]) == 0 {
		j.lost++
		j.complain("job %s succeeded, and intent %d has no effect", r.ID, r.Intent)
	}
	for _, e := range j.effects[r.Intent] {
		if r.State == "succeeded" && e.Job == r.ID && e.Attempt != r.By {
			j.complain("job %s has the result of attempt %s, and an effect of attempt %s", r.ID, r.By, e.Attempt)
		}
	}
	if k == dooms && r.Attempts != doomed {
		j.complain("job %s had %d attempts, not %d", r.ID, r.Attempts, doomed)
	}
	if j.history.cancelled[r.ID] && r.State != "cancelled" {
		j.complain("job %s was told to be cancelled, and %s", r.ID, r.State)
	}
	if !r.Expires {
		j.complain("job %s has ended and is kept for ever", r.ID)
	}
}

// answers looks at what the callers were told.
func (j *judgement) answers() {
	first, gone := make(map[int]string), make(map[string]bool)
	for _, t := range j.history.told {
		r, ok := j.rows[t.Job]
		switch {
		case t.Error != "":
			j.complain("intent %d, life %d: unexpected error: %s", t.Intent, t.Life, t.Error)
			continue
		case !ok && !gone[t.Job]:
			gone[t.Job] = true
			j.lost++
			j.complain("intent %d was told of job %s, which is not there", t.Intent, t.Job)
		case ok && r.Intent != t.Intent:
			j.complain("intent %d was told of job %s, which is of intent %d", t.Intent, t.Job, r.Intent)
		}
		if first[t.Intent] == "" {
			first[t.Intent] = t.Job
		}
		if first[t.Intent] != t.Job {
			j.complain("intent %d was told of job %s, and then of job %s", t.Intent, first[t.Intent], t.Job)
		}
	}
	for _, i := range j.history.intents {
		if first[i.n] == "" {
			j.complain("intent %d has no answer in the end", i.n)
		}
	}
}

// deaths looks for effects of attempts that died before COMMIT was written, and of those that came back when they had lost
// their job.
func (j *judgement) deaths() {
	for _, d := range j.history.deaths {
		if d.Attempt != "" && d.beforeCommit() && j.committed(d) {
			j.complain("intent %d has an effect of attempt %s, which died at %s", d.Intent, d.Attempt, d.Point)
		}
	}
	for _, s := range j.history.stale {
		if s.late && j.committed(s.mark) {
			j.complain("intent %d has an effect of attempt %s, which was stopped at %s and had lost the job", s.Intent, s.Attempt, s.Point)
		}
	}
}

// committed reports whether the effect of the attempt is there.
func (j *judgement) committed(m mark) bool {
	for _, e := range j.effects[m.Intent] {
		if e.Attempt == m.Attempt {
			return true
		}
	}
	return false
}

// counts compares the counters with what was counted in them, in the same transactions, and looks for records of calls that
// wait for jobs that have ended.
func (j *judgement) counts(b books) {
	want := make(map[int]int)
	for intent, effects := range j.effects {
		want[task{Intent: intent}.bucket()] += len(effects)
	}
	var wrong []string
	for bucket := range buckets {
		if b.counts[bucket] != want[bucket] {
			wrong = append(wrong, fmt.Sprintf("counter %d is at %d and should be at %d", bucket, b.counts[bucket], want[bucket]))
		}
	}
	if len(wrong) > 0 {
		j.complain("half a transaction is there: %s", strings.Join(wrong, ", "))
	}
	if b.held > 0 && j.stuck == 0 {
		j.complain("%d records of calls are kept for ever, and all jobs have ended", b.held)
	}
}
