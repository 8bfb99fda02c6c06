package txidem

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/toolcall"
)

func TestRun_R07_LargeAnswersStayBehindAPointerAndReplayWhole(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	for label, size := range map[string]int{"inline": 64<<10 - 2, "one more": 64<<10 - 1, "the largest": 16<<20 - 2} {
		answer := strings.Repeat("x", size) // and two quotes
		first, err := Run(t.Context(), f.store, request(label), func(ctx context.Context, tx pgx.Tx) (string, error) {
			return answer, write(ctx, tx, label)
		})
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		again, err := Run(t.Context(), f.store, request(label), writes(label))
		if err != nil || !again.Replayed || again.Value != answer || string(again.Raw) != string(first.Raw) || f.effects(label) != 1 {
			t.Errorf("%s: replayed %v, %d bytes, %v, %d effects", label, again.Replayed, len(again.Value), err, f.effects(label))
		}
	}
	_, err := Run(t.Context(), f.store, request("too large"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		return strings.Repeat("x", 16<<20-1), write(ctx, tx, "too large")
	})
	if !errors.Is(err, ErrAnswerTooLarge) || f.effects("too large") != 0 {
		t.Errorf("too large: %v, %d effects", err, f.effects("too large"))
	}
	// What makes a pointer of it: the rows themselves stay small.
	var heap int64
	if err := f.pool.QueryRow(t.Context(), `select pg_relation_size('txonce.call')`).Scan(&heap); err != nil || heap > 16<<10 {
		t.Errorf("the table without its large answers has %d bytes (%v); want a few pages", heap, err)
	}
}

func TestRun_R07_LargeAnswerThatWasSweptBetweenTwoReadsRunsAgain(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	gone := false
	f.store.authorize = func(ctx context.Context, _ Recorded) error { // sits between the two reads
		if !gone {
			gone = true
			f.exec(`delete from txonce.call`)
		}
		return nil
	}
	big := func(ctx context.Context, tx pgx.Tx) (string, error) {
		return strings.Repeat("x", 1<<20), write(ctx, tx, "k")
	}
	if _, err := Run(t.Context(), f.store, request("k"), big); err != nil {
		t.Fatal(err)
	}
	if got, err := Run(t.Context(), f.store, request("k"), big); err != nil || got.Replayed || f.effects("k") != 2 {
		t.Errorf("replayed %v, %v, %d effects; want a second run", got.Replayed, err, f.effects("k"))
	}
}

type ticket struct {
	Customer string    `json:"customer"`
	Subject  string    `json:"subject" idem:"-"`
	At       time.Time `json:"at" idem:"round=1m"`
	Lines    []struct {
		Cents float64 `json:"cents"`
		Note  string  `json:"note"`
	} `json:"lines"`
}

func TestRun_K05_K08_WhatDoesNotCountMayBeReworded(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	rules, err := NewRules(RuleSpec{
		Args: reflect.TypeFor[ticket](), Ignore: []string{"/lines/*/note", "/nonce"},
		RoundNumber: map[string]string{"/lines/*/cents": "1"}, RoundTime: map[string]time.Duration{"/seen": time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(key, args string) (Result[string], error) {
		return Run(t.Context(), f.store, Request{Scope: "a", Tool: "t", Key: key, Args: json.RawMessage(args), Rules: rules}, writes("k"))
	}
	const first = `{"customer":"c","subject":"Broken lamp","at":"2026-11-29T10:00:05Z","lines":[{"cents":10.2,"note":"x"}],"nonce":1,"seen":"2026-11-29T10:00:00Z"}`
	const reworded = `{"customer":"c","subject":"The lamp is broken","at":"2026-11-29T11:00:50+01:00","lines":[{"cents":10.9}],"nonce":2,"seen":"2026-11-29T10:59:00Z"}`
	const other = `{"customer":"c","subject":"Broken lamp","at":"2026-11-29T10:01:05Z","lines":[{"cents":11.2,"note":"x"}],"nonce":1,"seen":"2026-11-29T10:00:00Z"}`
	for _, key := range []string{"", "k"} { // derived and explicit
		if _, err := call(key, first); err != nil {
			t.Fatal(err)
		}
		if again, err := call(key, reworded); err != nil || !again.Replayed {
			t.Errorf("key %q: a reworded retry: %+v, %v; want a replay", key, again, err)
		}
	}
	_, err = call("k", other)
	var reused *KeyReusedError
	if !errors.As(err, &reused) || !slices.Equal(reused.Paths, []string{"/at", "/lines/0/cents"}) {
		t.Errorf("K07: got %v, want the paths that differ", err)
	}
	if strings.Contains(err.Error(), "11.2") {
		t.Errorf("K07: the error shows a value: %v", err)
	}
}

func TestNewRules_K05_ErrorsNameThePath(t *testing.T) {
	t.Parallel()
	for says, spec := range map[string]RuleSpec{
		"nopath": {Ignore: []string{"nopath"}},
		"/a":     {RoundNumber: map[string]string{"/a": "zero"}},
		"/b":     {RoundTime: map[string]time.Duration{"/b": -1}},
		"/c":     {RoundTime: map[string]time.Duration{"/c": time.Hour}, RoundNumber: map[string]string{"/c": "1"}},
		"Field": {Args: reflect.TypeFor[struct {
			Field string `idem:"maybe"`
		}]()},
	} {
		if _, err := NewRules(spec); err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "txidem: ") {
			t.Errorf("got %v, want an error that names %s", err, says)
		}
	}
	if rules, err := NewRules(RuleSpec{}); rules != nil || err != nil {
		t.Errorf("an empty spec: %v, %v", rules, err)
	}
}

func TestKeys_K06_PartsCannotBeCrafted(t *testing.T) {
	t.Parallel()
	keys := map[string]string{
		"intent":        IntentKey("run", "step", "tool"),
		"moved border":  IntentKey("runs", "tep", "tool"),
		"empty part":    IntentKey("run", "", "steptool"),
		"business":      BusinessKey("run", "step", "tool"),
		"one part":      BusinessKey("runsteptool"),
		"two parts":     BusinessKey("run", "steptool"),
		"trailing part": BusinessKey("run", "step", "tool", ""),
		"labelled":      BusinessKey("intent", "run", "step", "tool"),
		"no part":       BusinessKey(),
	}
	seen := map[string]string{}
	for label, key := range keys {
		if before, taken := seen[key]; taken {
			t.Errorf("%q and %q are one key", before, label)
		}
		seen[key] = label
		if err := checkKey(key); err != nil {
			t.Errorf("%s: %v", label, err)
		}
	}
	if got := IntentKey("run", "step", "tool"); got != "intent-968f80a30b251de07f2464050c0449098324222a" {
		t.Errorf("the keys of running agents change: %s", got)
	}
}

func TestRun_K09_OlderRecordIsJudgedByItsOwnVersion(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	f.exec(`update txonce.call set canon = 99`)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); !errors.Is(err, ErrRecord) || f.effects("k") != 1 {
		t.Errorf("an unknown version: %v, %d effects; want ErrRecord and no run", err, f.effects("k"))
	}
	if _, err := Run(t.Context(), f.store, Request{Scope: "alice", Tool: "issue_refund/2", Key: "k"}, writes("v2")); err != nil {
		t.Errorf("another version of the tool: %v", err)
	}
}

func TestRun_K09_RecordInAStateThatIsNotOursIsNotShown(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	f.exec(`update txonce.call set state = 'leased'`)
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); !errors.Is(err, ErrRecord) || got.Raw != nil || f.effects("k") != 1 {
		t.Errorf("got %+v, %v, %d effects", got, err, f.effects("k"))
	}
}

func TestRun_K01_RecordOfAnotherIdentityIsNeverShown(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"scope", "tool", "key"} {
		f.exec(`update txonce.call set ` + column + ` = ` + column + ` || '2'`) // as if the ids collided
		got, err := Run(t.Context(), f.store, request("k"), writes("k"))
		if !errors.Is(err, ErrRecord) || got.Raw != nil {
			t.Errorf("%s: got %+v, %v; want ErrRecord and nothing shown", column, got, err)
		}
		f.exec(`update txonce.call set ` + column + ` = left(` + column + `, -1)`)
	}
}

func TestRun_R05_AnswerOfAnotherTypeIsAnErrorThatKeepsTheBytes(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	if _, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil {
		t.Fatal(err)
	}
	got, err := Run(t.Context(), f.store, request("k"), func(context.Context, pgx.Tx) (int, error) { return 1, nil })
	if !errors.Is(err, ErrRecord) || string(got.Raw) != `"done k"` || !got.Replayed {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRun_R16_ReplayAndStatusAskForAuthority(t *testing.T) {
	t.Parallel()
	f := setup(t, nil, nil)
	revoked := errors.New("the grant was revoked")
	var refuse bool
	var asked []Recorded
	f.store.authorize = func(_ context.Context, r Recorded) error {
		asked = append(asked, r)
		if refuse {
			return revoked
		}
		return nil
	}
	first, err := Run(t.Context(), f.store, request("k"), writes("k"))
	if err != nil || len(asked) != 0 {
		t.Fatalf("%v, asked %v: a first run needs no leave", err, asked)
	}
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); err != nil || !got.Replayed {
		t.Errorf("allowed: %+v, %v", got, err)
	}
	want := []Recorded{{ID: first.ID, Scope: "alice", Tool: "issue_refund", FinishedAt: first.FinishedAt}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	refuse = true
	if got, err := Run(t.Context(), f.store, request("k"), writes("k")); !errors.Is(err, ErrNotAllowed) || !errors.Is(err, revoked) || got.Raw != nil || Retryable(err) {
		t.Errorf("refused: %+v, %v", got, err)
	}
	if got, err := f.store.Status(t.Context(), request("k")); !errors.Is(err, ErrNotAllowed) || got.Answer != nil {
		t.Errorf("status: %+v, %v", got, err)
	}
	if e, r := f.effects("k"), f.records(); e != 1 || r != 1 {
		t.Errorf("%d effects, %d records", e, r)
	}
}

// listener keeps what it observes.
type listener struct {
	mu     sync.Mutex
	events []Event
}

func (l *listener) Observe(_ context.Context, e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func TestObserver_HearsOneDecisionPerCall(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Wait: NoWait}, nil)
	l := &listener{}
	f.store.observer = l
	fails := func(err error) handlerFunc {
		return func(context.Context, pgx.Tx) (string, error) { return "", err }
	}
	other := request("ran")
	other.Args = []byte(`{}`)
	refuse := request("refuse")
	refuse.Policy = &Policy{OnExpired: Refuse}
	disabled := request("disabled")
	disabled.Policy = &Policy{Disabled: true}
	running := f.hold(request("running"), "running")
	for _, c := range []struct {
		req     Request
		handler handlerFunc
		want    Decision
	}{
		{request("ran"), writes("x"), DecidedRan},
		{request("ran"), writes("x"), DecidedReplayed},
		{other, writes("x"), DecidedKeyReused},
		{request("failed"), fails(Fail("a", "b")), DecidedFailed},
		{request("failed"), writes("x"), DecidedReplayed},
		{request("running"), writes("x"), DecidedInProgress},
		{request("released"), fails(errors.New("no")), DecidedReleased},
		{Request{Tool: "t"}, writes("x"), DecidedRefused},
		{refuse, writes("x"), DecidedRan},
		{disabled, writes("x"), DecidedUnprotected},
	} {
		l.events = nil
		_, err := Run(t.Context(), f.store, c.req, c.handler)
		if len(l.events) != 1 {
			t.Fatalf("%s: %d events", c.want, len(l.events))
		}
		e := l.events[0]
		if e.Decision != c.want || !errors.Is(e.Err, err) || e.Total <= 0 || e.Scope != c.req.Scope || (e.ID.IsZero() != (c.want == DecidedRefused)) {
			t.Errorf("want %s, got %+v", c.want, e)
		}
		if ran := e.Runs > 0; ran != (e.Handler > 0) || (c.want == DecidedRan && (!ran || e.Commit <= 0 || e.AnswerBytes == 0)) {
			t.Errorf("%s: runs and times do not fit: %+v", c.want, e)
		}
	}
	l.events = nil
	if err := running.end(nil); err != nil || len(l.events) != 1 || l.events[0].Decision != DecidedRan {
		t.Errorf("the held call: %v, %+v", err, l.events)
	}
	l.events = nil
	f.age("x:%")
	_, _ = Run(t.Context(), f.store, refuse, writes("x"))
	_, _ = Run(t.Context(), f.store, request("ran"), writes("x"))
	if len(l.events) != 2 || l.events[0].Decision != DecidedExpired || l.events[1].Decision != DecidedRan || !l.events[1].Takeover {
		t.Errorf("after the retention: %+v", l.events)
	}
}

func TestRun_R15_KillSwitchRunsUnprotectedAndSaysSo(t *testing.T) {
	t.Parallel()
	f := setup(t, &Policy{Disabled: true}, nil)
	var log strings.Builder
	f.store.log = slog.New(slog.NewTextHandler(&log, nil))
	f.exec(`drop table txonce.call`) // the emergency
	for range 2 {
		got, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
			c, _ := toolcall.FromContext(ctx)
			if err := c.AtFinish(func(b *pgx.Batch) { b.Queue(`insert into effect (intent) values ('queued')`) }); err != nil {
				return "", err
			}
			return "done", write(ctx, tx, "k")
		})
		if err != nil || got.Value != "done" || got.Replayed {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if e, q := f.effects("k"), f.effects("queued"); e != 2 || q != 2 {
		t.Errorf("%d effects, %d queued; want 2 and 2: nothing protects them", e, q)
	}
	if n := strings.Count(log.String(), "unprotected=true"); n != 2 {
		t.Errorf("%d log lines say so:\n%s", n, log.String())
	}
	if _, err := Run(t.Context(), f.store, request("k"), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_ = write(ctx, tx, "rolled back")
		return "", errors.New("no")
	}); err == nil || f.effects("rolled back") != 0 {
		t.Errorf("an error: %v, %d effects", err, f.effects("rolled back"))
	}
	f.idle()
}
