package txidem

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

func TestRunLeased_R14_R15_KillSwitchRunsUnprotectedAndSaysSo(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Disabled: true}, nil)
	var log strings.Builder
	f.store.log = slog.New(slog.NewTextHandler(&log, nil))
	f.exec(`drop table txonce.call`) // the emergency
	p := &provider{}
	for range 2 {
		got, err := RunLeased(t.Context(), f.store, request("k"), leaves("queued", p.pay), neverAsk(t))
		if err != nil || got.Value != "paid" || got.Replayed {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if _, err := RunLeased(t.Context(), f.store, request("k"), leaves("queued", p.fails(errCutOff)), nil); !errors.Is(err, errCutOff) || errors.Is(err, ErrBlocked) {
		t.Errorf("an error: %v", err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("k"), func(context.Context) (string, error) { panic("p") }, nil); !errors.Is(err, ErrHandlerPanicked) {
		t.Errorf("a panic: %v", err)
	}
	if n, q := len(p.paid()), f.effects("queued"); n != 3 || q != 2 {
		t.Errorf("%d runs, %d queued statements; want 3 and 2: nothing protects them", n, q)
	}
	if n := strings.Count(log.String(), "unprotected=true"); n != 4 {
		t.Errorf("%d log lines say that it is unprotected, want 4:\n%s", n, log.String())
	}
}

// TestRunLeased_R14_R16_AsksForAuthority: who may not know learns nothing of what is recorded, is running, or was cut off.
func TestRunLeased_R14_R16_AsksForAuthority(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	held, _ := f.holdLeased(t.Context(), request("running"), nil)
	f.abandon(request("cut off"))
	if _, err := RunLeased(t.Context(), f.store, request("done"), doAnswers("done"), nil); err != nil {
		t.Fatal(err)
	}
	var told []Recorded
	f.store.authorize = func(_ context.Context, r Recorded) error {
		told = append(told, r)
		return errors.New("not any more")
	}
	for _, key := range []string{"running", "cut off", "done"} {
		told = nil
		for _, req := range []Request{request(key), withOtherArgs(request(key))} {
			_, err := RunLeased(t.Context(), f.store, req, neverDo(t), neverAsk(t))
			_, statusErr := f.store.Status(t.Context(), req)
			if !errors.Is(err, ErrNotAllowed) || !errors.Is(statusErr, ErrNotAllowed) || errors.Is(err, ErrKeyReused) {
				t.Errorf("%s: got %v, and of the status %v", key, err, statusErr)
			}
		}
		if len(told) != 4 || told[0].Scope != "alice" || told[0].FinishedAt.IsZero() != (key != "done") {
			t.Errorf("%s: it was told %+v", key, told)
		}
	}
	f.store.authorize = nil
	if end := held.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
}

// TestRunLeased_R14_ObserverHearsOneDecisionPerCall names the way, the decision, and how often a handler ran.
func TestRunLeased_R14_ObserverHearsOneDecisionPerCall(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long}, nil)
	l := &listener{}
	held, _ := f.holdLeased(t.Context(), request("running"), nil)
	f.abandon(request("cut off"))
	f.store.observer = l
	fails := func(err error) doFunc { return func(context.Context) (string, error) { return "", err } }
	finds := func(context.Context) (string, bool, error) { return "found", true, nil }
	rerun := request("cut off")
	rerun.Policy = &Policy{OnLeaseLost: RerunLost}
	disabled := request("disabled")
	disabled.Policy = &Policy{Disabled: true}
	for _, c := range []struct {
		req  Request
		do   doFunc
		ask  askFunc
		want Event
	}{
		{request("ran"), doAnswers("x"), nil, Event{Decision: DecidedRan, Runs: 1}},
		{request("ran"), neverDo(t), nil, Event{Decision: DecidedReplayed}},
		{withOtherArgs(request("ran")), neverDo(t), nil, Event{Decision: DecidedKeyReused}},
		{request("failed"), fails(Fail("a", "b")), nil, Event{Decision: DecidedFailed, Runs: 1}},
		{request("failed"), neverDo(t), nil, Event{Decision: DecidedReplayed}},
		{request("running"), neverDo(t), nil, Event{Decision: DecidedInProgress}},
		{request("not done"), fails(NotDone(errCutOff)), nil, Event{Decision: DecidedReleased, Runs: 1}},
		{request("open"), fails(errCutOff), nil, Event{Decision: DecidedUnknown, Runs: 1}},
		{request("open"), neverDo(t), nil, Event{Decision: DecidedUnknown}},
		{rerun, fails(errCutOff), nil, Event{Decision: DecidedUnknown, Runs: 1, Takeover: true}},
		{rerun, doAnswers("x"), nil, Event{Decision: DecidedRan, Runs: 1, Takeover: true}},
		{request("open"), neverDo(t), finds, Event{Decision: DecidedRan, Takeover: true}},
		{request("Bad\x00"), neverDo(t), nil, Event{Decision: DecidedRefused}},
		{disabled, doAnswers("x"), nil, Event{Decision: DecidedUnprotected, Runs: 1}},
	} {
		l.events = nil
		_, err := RunLeased(t.Context(), f.store, c.req, c.do, c.ask)
		if len(l.events) != 1 {
			t.Fatalf("%s: %d events", c.req.Key, len(l.events))
		}
		e := l.events[0]
		if e.Way != WayLeased || e.Decision != c.want.Decision || e.Runs != c.want.Runs || e.Takeover != c.want.Takeover || e.Resolved || !errors.Is(e.Err, err) || e.Total <= 0 {
			t.Errorf("%s: got %+v, want %+v", c.req.Key, e, c.want)
		}
		if e.Runs > 0 && e.Handler <= 0 || (c.want.Decision == DecidedRan) != (e.Commit > 0 && e.AnswerBytes > 0 && err == nil) {
			t.Errorf("%s: times and sizes do not fit: %+v", c.req.Key, e)
		}
	}
	f.age("x:ran")
	l.events = nil
	_, _ = RunLeased(t.Context(), f.store, request("ran"), doAnswers("x"), nil)
	if len(l.events) != 1 || l.events[0].Decision != DecidedRan || !l.events[0].Takeover {
		t.Errorf("over an expired record: %+v", l.events)
	}
	if end := held.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
}

// grantAsDocumented leaves the owner of the table with what the documentation of package migrations gives an application.
func (f *fixture) grantAsDocumented() (owner string) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `select current_user`).Scan(&owner); err != nil {
		f.t.Fatal(err)
	}
	doc, err := os.ReadFile("../migrations/doc.go")
	if err != nil {
		f.t.Fatal(err)
	}
	f.exec(`revoke all on all tables in schema txonce from ` + owner)
	n := 0
	for line := range strings.Lines(string(doc)) {
		sql, isGrant := strings.CutPrefix(strings.TrimSpace(line), "//\tgrant ")
		if sql, toApp := strings.CutSuffix(sql, " to app;"); isGrant && toApp {
			f.exec("grant " + sql + " to " + owner)
			n++
		}
	}
	if n != 6 {
		f.t.Fatalf("the documentation has %d grants, want 6", n)
	}
	return owner
}

// TestRunLeased_R14_D08_DocumentedGrantsAreEnough goes through what RunLeased does to the table, with no right but the
// documented ones; and without the update that is needed behind the effect, there is no effect.
func TestRunLeased_R14_D08_DocumentedGrantsAreEnough(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Lease: long, Renew: 50 * time.Millisecond, OnLeaseLost: RerunLost}, nil)
	owner := f.grantAsDocumented()
	held, _ := f.holdLeased(t.Context(), request("renewed"), nil)
	before := f.callRow("renewed")
	eventually(t, "it has been renewed", func() bool { return f.callRow("renewed") != before })
	if end := held.end(doAnswers("done")); end.err != nil {
		t.Error(end.err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (string, error) { return "", NotDone(errCutOff) }, nil); err == nil || f.callRow("a") != "" {
		t.Errorf("not done: %v", err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (string, error) { return "", errCutOff }, nil); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("cut off: %v", err)
	}
	if _, err := RunLeased(t.Context(), f.store, request("a"), func(context.Context) (string, error) { return "", Fail("no", "no") }, nil); err == nil {
		t.Error("no failure")
	}
	f.age("x:a")
	if got, err := RunLeased(t.Context(), f.store, request("a"), doAnswers("done"), nil); err != nil || got.Replayed {
		t.Errorf("over an expired record: %+v, %v", got, err)
	}
	f.abandon(request("cut off"))
	for _, column := range []string{"state", "attempt", "fingerprint", "lease_until", "answer"} {
		f.exec(`revoke update (` + column + `) on txonce.call from ` + owner)
		for _, key := range []string{"new", "cut off"} {
			if _, err := RunLeased(t.Context(), f.store, request(key), neverDo(t), nil); !errors.Is(err, ErrPermission) || Retryable(err) {
				t.Errorf("%s without update of %s: %v, want ErrPermission", key, column, err)
			}
		}
		if row := f.callRow("new"); row != "" {
			t.Errorf("without update of %s there is %s", column, row)
		}
		f.exec(`grant update (` + column + `) on txonce.call to ` + owner)
	}
	f.renewsNothing()
}
