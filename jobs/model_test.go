package jobs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/toolcall"
)

// TestModel_J02_I1_I5_I7_JobsFollowTheModel does random things to jobs and their attempts, one at a time, against a model that
// fits on a page. After each of them the database must be what the model says: how far each job is, by whom it was
// done (I1, I5), and the answer byte for byte (I7).
//
// It makes 30 sequences; -rapid.checks=n makes n, -rapid.seed and -rapid.failfile repeat one.
func TestModel_J02_I1_I5_I7_JobsFollowTheModel(t *testing.T) {
	thirtyChecks(t)
	t.Parallel()
	visits := make(chan *modelVisit, 1)
	d := Define("report", func(ctx context.Context, job *Job[in]) (Commit[out], error) {
		v := &modelVisit{ctx: ctx, label: fmt.Sprintf("%s#%d", job.Args.Label, job.Attempt), end: make(chan modelEnd)}
		visits <- v
		select {
		case end := <-v.end:
			return end(v)
		case <-t.Context().Done():
			return nil, errors.New("the test has ended")
		}
	}, &Options{Backoff: noPause, MaxAttempts: 3})
	f := setup(t, still(), d)
	other := f.another(still(), d)
	rapid.Check(t, func(t *rapid.T) {
		w := &modelWorld{f: f, d: d, visits: visits, runners: []*Runner{f.Runner, other}}
		t.Cleanup(w.bury)
		t.Repeat(map[string]func(*rapid.T){
			"submit": w.submit, "submit another": w.submit, // most of the others end one
			"ring": w.ring, "ring again": w.ring, "ring once more": w.ring,
			"lapse": w.lapse, "lapse another": w.lapse,
			"commit": w.commit, "commit in vain": w.commitFails, "fail": w.fail, "err": w.errs, "stop": w.stop,
			"cancel": w.cancel, "cancel in the queue": w.cancelInQueue, "overdue": w.overdue, "sweep": w.sweep, "ask": w.ask, "": w.check,
		})
	})
}

func thirtyChecks(t *testing.T) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	if err := flag.Set("rapid.checks", "30"); err != nil {
		t.Fatal(err)
	}
}

// modelVisit is an attempt that computes.
type modelVisit struct {
	ctx    context.Context
	label  string
	end    chan modelEnd
	job    *modelJob
	number int
	stop   context.CancelFunc // of the doorbell that rang for it
	rung   <-chan error       // what became of that
}

type modelEnd func(v *modelVisit) (Commit[out], error)

// modelJob is all that there is to know of a job.
type modelJob struct {
	id        toolcall.ID
	label     string
	state     toolcall.State
	attempts  int
	owner     *modelVisit // who may commit
	live      bool        // it has a lease
	cancelled bool        // somebody has asked for it
	dropped   bool        // its doorbell was cancelled in the queue
	overdue   bool
	by        string // whose effect there is
	code      string // of its failure
}

func (j *modelJob) ended() bool {
	return j.state != toolcall.StateQueued && j.state != toolcall.StateRunning
}

// over ends the job.
func (j *modelJob) over(state toolcall.State, code string) {
	j.state, j.code, j.owner, j.live = state, code, nil, false
}

// settle is what the sweeper does, and whoever asks.
func (j *modelJob) settle() {
	switch {
	case j.ended() || j.live:
	case j.cancelled || j.dropped:
		j.over(toolcall.StateCancelled, "")
	case j.overdue:
		j.over(toolcall.StateFailed, CodeDeadline)
	case j.attempts >= modelAttempts:
		j.over(toolcall.StateFailed, CodeAttemptsExhausted)
	}
}

const modelAttempts = 3

// modelWorld is a few jobs, and the attempts that compute.
type modelWorld struct {
	f       *fixture
	d       *Definition[in, out]
	visits  <-chan *modelVisit
	runners []*Runner
	jobs    []*modelJob
	running []*modelVisit
}

func (w *modelWorld) submit(t *rapid.T) {
	j := &modelJob{label: newID().String(), state: toolcall.StateQueued}
	j.id = submit(w.f, w.d, in{Label: j.label}, nil)
	w.jobs = append(w.jobs, j)
}

// job picks a job: one of the last three, for things must meet.
func (w *modelWorld) job(t *rapid.T) *modelJob {
	n := len(w.jobs)
	if n == 0 {
		t.SkipNow()
	}
	return w.jobs[n-1-rapid.IntRange(0, min(n, 3)-1).Draw(t, "job, from the last")]
}

func (w *modelWorld) runner(t *rapid.T) *Runner {
	return w.runners[rapid.IntRange(0, len(w.runners)-1).Draw(t, "runner")]
}

// ring has a doorbell ring, whether it makes sense or not.
func (w *modelWorld) ring(t *rapid.T) {
	j, r := w.job(t), w.runner(t)
	ctx, stop := context.WithCancel(w.f.t.Context())
	rung := make(chan error, 1)
	go func() { rung <- r.answer(ctx, w.d.def, j.id) }()
	if j.ended() || j.live || j.cancelled || j.overdue || j.attempts >= modelAttempts {
		defer stop()
		if err := receive(w.f, "the doorbell is answered", rung); (err == nil) != j.ended() || err != nil && !isSnooze(err) {
			t.Fatalf("the doorbell of %+v: %v", j, err)
		}
		return
	}
	v := receive(w.f, "an attempt begins", w.visits)
	j.attempts++
	v.job, v.number, v.stop, v.rung = j, j.attempts, stop, rung
	if want := fmt.Sprintf("%s#%d", j.label, j.attempts); v.label != want {
		t.Fatalf("attempt %s has begun, want %s", v.label, want)
	}
	j.state, j.owner, j.live = toolcall.StateRunning, v, true
	w.running = append(w.running, v)
}

// ends has an attempt end, and reports whether the job is still its own. Whatever it does is nothing if not.
func (w *modelWorld) ends(t *rapid.T, end modelEnd) (j *modelJob, v *modelVisit, owns bool) {
	if len(w.running) == 0 {
		t.SkipNow()
	}
	i := rapid.IntRange(0, len(w.running)-1).Draw(t, "attempt")
	v = w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	v.end <- end
	err := receive(w.f, "the attempt has ended", v.rung)
	v.stop()
	owns = v.job.owner == v
	if !owns && !isSnooze(err) {
		t.Fatalf("attempt %s, which has lost its job: %v; want its doorbell put off", v.label, err)
	}
	return v.job, v, owns
}

// writes is the commit half of the model.
func (v *modelVisit) writes(err error) Commit[out] {
	return func(ctx context.Context, tx pgx.Tx) (out, error) {
		return out{Label: v.job.label, By: v.label}, errors.Join(write(ctx, tx, v.label), err)
	}
}

func (w *modelWorld) commit(t *rapid.T) {
	j, v, owns := w.ends(t, func(v *modelVisit) (Commit[out], error) { return v.writes(nil), nil })
	switch {
	case !owns:
	case j.cancelled:
		j.over(toolcall.StateCancelled, "")
	case j.overdue:
		j.over(toolcall.StateFailed, CodeDeadline)
	default:
		j.over(toolcall.StateSucceeded, "")
		j.by = v.label
	}
}

var errModel = errors.New("no luck")

// commitFails has the commit half return an error.
func (w *modelWorld) commitFails(t *rapid.T) {
	j, v, owns := w.ends(t, func(v *modelVisit) (Commit[out], error) { return v.writes(errModel), nil })
	switch {
	case owns && j.cancelled: // it does not come that far
		j.over(toolcall.StateCancelled, "")
	case owns && j.overdue:
		j.over(toolcall.StateFailed, CodeDeadline)
	case owns:
		j.again(v)
	}
}

// again is what becomes of a job whose attempt did not succeed.
func (j *modelJob) again(v *modelVisit) {
	if v.number >= modelAttempts {
		j.over(toolcall.StateFailed, CodeAttemptsExhausted)
		return
	}
	j.state, j.owner, j.live = toolcall.StateQueued, nil, false
}

func (w *modelWorld) errs(t *rapid.T) {
	if j, v, owns := w.ends(t, func(*modelVisit) (Commit[out], error) { return nil, errModel }); owns {
		j.again(v)
	}
}

func (w *modelWorld) fail(t *rapid.T) {
	if j, _, owns := w.ends(t, func(*modelVisit) (Commit[out], error) { return nil, Fail("no", "not this one") }); owns {
		j.over(toolcall.StateFailed, "no")
	}
}

// stop has the runner of an attempt stop, which heeds it.
func (w *modelWorld) stop(t *rapid.T) {
	j, _, owns := w.ends(t, func(v *modelVisit) (Commit[out], error) {
		v.stop()
		<-v.ctx.Done()
		return nil, v.ctx.Err()
	})
	if owns {
		j.state, j.owner, j.live = toolcall.StateQueued, nil, false
		j.attempts--
	}
}

// lapse has a lease run out.
func (w *modelWorld) lapse(t *rapid.T) {
	j := w.job(t)
	if !j.live {
		t.SkipNow()
	}
	w.f.lapse(j.id)
	j.live = false
}

func (w *modelWorld) cancel(t *rapid.T) {
	j := w.job(t)
	s, err := w.f.Cancel(w.f.t.Context(), scope, j.id)
	switch {
	case j.ended():
		if !errors.Is(err, ErrFinished) || s.State != j.state {
			t.Fatalf("Cancel of %+v: %+v, %v; want ErrFinished", j, s, err)
		}
		return
	case j.live:
		j.cancelled, j.dropped = true, true
	default:
		j.cancelled = true
		j.over(toolcall.StateCancelled, "")
	}
	if err != nil || s.State != j.state {
		t.Fatalf("Cancel of %+v: %+v, %v", j, s, err)
	}
}

func (w *modelWorld) cancelInQueue(t *rapid.T) {
	j := w.job(t)
	if j.ended() {
		t.SkipNow()
	}
	w.f.cancelBell(j.id)
	j.dropped = true
}

func (w *modelWorld) overdue(t *rapid.T) {
	j := w.job(t)
	if j.ended() || j.overdue {
		t.SkipNow()
	}
	w.f.exec(`update txonce.job set deadline = clock_timestamp() where id = $1::uuid`, uuidOf(j.id))
	j.overdue = true
}

func (w *modelWorld) sweep(t *rapid.T) {
	for _, j := range w.jobs {
		if !j.ended() {
			w.f.due(j.id)
		}
		j.settle()
	}
	w.f.sweeps(w.runner(t))
}

func (w *modelWorld) ask(t *rapid.T) {
	j := w.job(t)
	j.settle()
	s := w.f.status(j.id)
	code := ""
	if s.Failure != nil {
		code = s.Failure.Code
	}
	if s.State != j.state || code != j.code || s.Job.Attempts != j.attempts || s.Job.CancelRequested != j.cancelled {
		t.Fatalf("its status is %+v, %+v; want %+v", s, s.Job, j)
	}
}

// check compares the whole of the database with the model.
func (w *modelWorld) check(t *rapid.T) {
	want, ids := make(map[string]string), []string{}
	for _, j := range w.jobs {
		ids = append(ids, j.id.String())
		answer := ""
		switch {
		case j.state == toolcall.StateSucceeded:
			answer = fmt.Sprintf(`{"label":%q,"by":%q}`, j.label, j.by)
		case j.state == toolcall.StateFailed:
			answer = j.code
		}
		effect := strings.TrimPrefix(j.by, j.label)
		want[j.label] = fmt.Sprintf("%s after %d, ended %v, lease %v, %s, effects [%s]", j.state, j.attempts, j.ended(), j.live, answer, effect)
	}
	rows, _ := w.f.pool.Query(w.f.t.Context(), `select convert_from(args, 'UTF8')::jsonb->>'label',
		format('%s after %s, ended %s, lease %s, %s, effects [%s]', state, attempts, case when finished_at is null then 'false' else 'true' end,
			case when lease_until > clock_timestamp() then 'true' else 'false' end,
			case when state = 'failed' then convert_from(answer, 'UTF8')::jsonb->>'code' else convert_from(answer, 'UTF8') end,
			(select string_agg(substr(e.label, 37), ' ') from effect e where left(e.label, 36) = convert_from(args, 'UTF8')::jsonb->>'label'))
		from txonce.job where id = any($1::text[]::uuid[])`, ids)
	got := make(map[string]string)
	var label, row string
	if _, err := pgx.ForEachRow(rows, []any{&label, &row}, func() error { got[label] = row; return nil }); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(want, got) {
		t.Fatalf("the database is not what the model says (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// bury ends what still computes.
func (w *modelWorld) bury() {
	for _, v := range w.running {
		v.end <- func(*modelVisit) (Commit[out], error) { return nil, errModel }
		receive(w.f, "the attempt has ended", v.rung)
		v.stop()
	}
}
