package httpidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"

	"github.com/jackc/pgx/v5/pgxpool"
)

// TestHandler_H02_WhatBecomesOfEachStatus is the table of the package's documentation.
func TestHandler_H02_WhatBecomesOfEachStatus(t *testing.T) {
	t.Parallel()
	says := func(status int) handler {
		return func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.Header().Set("X-Odd", "1")
			w.WriteHeader(status)
			if status != 204 && status != 304 {
				_, _ = fmt.Fprintf(w, "said %d", status)
			}
			return nil
		}
	}
	for _, c := range []struct {
		name     string
		handle   handler
		status   int
		problem  string
		effects  int
		recorded bool
	}{
		{"200", says(200), 200, "", 1, true},
		{"201", says(201), 201, "", 1, true},
		{"202", says(202), 202, "", 1, true},
		{"204", says(204), 204, "", 1, true},
		{"303", says(303), 303, "", 1, true},
		{"304", says(304), 304, "", 1, true},
		{"nothing", func(http.ResponseWriter, *http.Request, pgx.Tx) error { return nil }, 200, "", 1, true},
		{"400", says(400), 400, "", 0, true},
		{"401", says(401), 401, "", 0, false},
		{"403", says(403), 403, "", 0, false},
		{"404", says(404), 404, "", 0, false},
		{"409", says(409), 409, "", 0, false},
		{"410", says(410), 410, "", 0, true},
		{"422", says(422), 422, "", 0, true},
		{"429", says(429), 429, "", 0, false},
		{"500", says(500), 500, "", 0, false},
		{"503", says(503), 503, "", 0, false},
		{"fail", func(http.ResponseWriter, *http.Request, pgx.Tx) error { return txidem.Fail("bad_amount", "no") }, 422, "failed", 0, true},
		{"error", func(http.ResponseWriter, *http.Request, pgx.Tx) error { return errors.New("secret") }, 500, "not_done", 0, false},
		{"error behind 201", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			w.WriteHeader(201)
			return errors.New("secret")
		}, 500, "not_done", 0, false},
		{"panic", func(http.ResponseWriter, *http.Request, pgx.Tx) error { panic("secret") }, 500, "fault", 0, false},
		{"bad status", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error { w.WriteHeader(42); return nil }, 500, "fault", 0, false},
		{"ignored error of SQL", func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, _ = tx.Exec(r.Context(), `select secret`)
			w.WriteHeader(201)
			return nil
		}, 500, "fault", 0, false},
		{"500 behind an error of SQL", func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			if _, err := tx.Exec(r.Context(), `select 1/0`); err != nil {
				http.Error(w, "sorry", 500)
			}
			return nil
		}, 500, "", 0, false},
		{"422 behind an error of SQL", func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			if _, err := tx.Exec(r.Context(), `select 1/0`); err != nil {
				http.Error(w, "no such order", http.StatusUnprocessableEntity)
			}
			return nil
		}, 422, "", 0, true},
		{"violated constraint", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error { return refund(r.Context(), tx, "A-1") }, 500, "fault", 0, false},
		{"lock not to be had", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), `do $$ begin raise exception 'secret' using errcode = '55P03'; end $$`)
			return err
		}, 503, "unavailable", 0, false},
		{"commit by SQL", func(_ http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), `commit`)
			return err
		}, 500, "failed", 1, true},
		{"too large", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			_, _ = w.Write(make([]byte, 3<<10))
			return nil
		}, 500, "fault", 0, false},
		{"too large in its encoding", func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			_, _ = w.Write(make([]byte, 1<<10)) // six characters each
			return nil
		}, 500, "fault", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, &httpidem.Config{Policy: &txidem.Policy{MaxAnswer: 2 << 10}, Headers: []string{"x-odd"}}, c.handle)
			first := b.post("A-1", "k", `{}`)
			b.want("first", first, c.status, c.problem, false)
			if n := b.records(); n != map[bool]int{true: 1}[c.recorded] {
				t.Errorf("%d records", n)
			}
			again := b.post("A-1", "k", `{}`)
			b.want("again", again, c.status, c.problem, c.recorded && c.name != "commit by SQL")
			again.header.Del("Idempotent-Replayed")
			if diff := cmp.Diff(first.body, again.body); diff != "" {
				t.Errorf("the repeated request got another body:\n%s", diff)
			}
			first.header.Del("Date")
			again.header.Del("Date")
			if diff := cmp.Diff(first.header, again.header); diff != "" {
				t.Errorf("the repeated request got other headers:\n%s", diff)
			}
			b.wantEffects(c.effects)
		})
	}
}

func TestHandler_H02_ReplayHasTheKeptHeadersAndNoCookie(t *testing.T) {
	t.Parallel()
	runs := 0
	h := protect(t, memory(t, nil), &httpidem.Config{Headers: []string{"X-Refund-Id"}}, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		runs++
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Refund-Id", "7")
		w.Header().Set("X-Trace", "t")
		w.Header().Set("Location", "/refunds/7")
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Idempotent-Replayed", "true") // not the handler's to say
		w.WriteHeader(201)
		w.Header().Set("X-Refund-Id", "too late")
		_, _ = w.Write([]byte("<refund>"))
		return nil
	})
	n := 0
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as middleware for CORS does
		n++
		w.Header().Set("Vary", "Origin")
		w.Header().Set("X-Request-Id", fmt.Sprint(n))
		w.Header().Set("Cache-Control", fmt.Sprint("max-age=", n))
		h.ServeHTTP(w, r)
	})
	first := ask(front, "POST", "/refunds", `{}`, "Idempotency-Key", "k")
	again := ask(front, "POST", "/refunds", `{}`, "Idempotency-Key", "k")
	common := http.Header{
		"X-Refund-Id": {"7"}, "Location": {"/refunds/7"}, "Vary": {"Origin", "Accept"}, "Content-Type": {"text/plain; charset=utf-8"}, "Content-Length": {"8"},
	}
	wantFirst, wantAgain := common.Clone(), common.Clone()
	wantFirst["Set-Cookie"], wantFirst["X-Trace"], wantFirst["X-Request-Id"], wantFirst["Cache-Control"] = []string{"session=1"}, []string{"t"}, []string{"1"}, []string{"max-age=1"}
	wantAgain["Idempotent-Replayed"], wantAgain["X-Request-Id"], wantAgain["Cache-Control"] = []string{"true"}, []string{"2"}, []string{"max-age=2"}
	if diff := cmp.Diff(answer{201, wantFirst, "<refund>"}, first, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("first:\n%s", diff)
	}
	if diff := cmp.Diff(answer{201, wantAgain, "<refund>"}, again, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("again:\n%s", diff)
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// TestHandler_H02_NothingIsSentBeforeTheCommit: at the time of COMMIT, the client has not got a byte.
func TestHandler_H02_NothingIsSentBeforeTheCommit(t *testing.T) {
	t.Parallel()
	var order []string
	b := newBench(t, &txidem.Config{Observer: observer(func(e txidem.Event) { order = append(order, string(e.Decision)) })})
	h := b.routes(nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		return created(w, r, tx)
	})
	done := make(chan struct{})
	b.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		h.ServeHTTP(spy{w, func(what string) { order = append(order, what) }}, r)
	}))
	b.want("first", b.post("A-1", "k", `{}`), 201, "", false)
	<-done
	if diff := cmp.Diff([]string{"ran", "header", "body"}, order); diff != "" {
		t.Error(diff)
	}
}

// spy tells what is sent.
type spy struct {
	http.ResponseWriter
	tell func(string)
}

func (s spy) WriteHeader(status int) { s.tell("header"); s.ResponseWriter.WriteHeader(status) }
func (s spy) Write(p []byte) (int, error) {
	s.tell("body")
	return s.ResponseWriter.Write(p)
}
func (s spy) Unwrap() http.ResponseWriter { return s.ResponseWriter }

type observer func(txidem.Event)

func (o observer) Observe(_ context.Context, e txidem.Event) { o(e) }

// TestHandler_H02_ReplayAfterRecordChanged: what was recorded stays the response, whatever a new version would record.
func TestHandler_H02_ReplayAfterRecordChanged(t *testing.T) {
	t.Parallel()
	store := memory(t, nil)
	says404 := func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error { http.NotFound(w, nil); return nil }
	before := protect(t, store, &httpidem.Config{Record: func(status int) bool { return status == 404 }}, says404)
	after := protect(t, store, &httpidem.Config{Record: func(int) bool { return false }}, says404)
	first, again := ask(before, "POST", "/x", "", "Idempotency-Key", "k"), ask(after, "POST", "/x", "", "Idempotency-Key", "k")
	if first.status != 404 || again.status != 404 || !again.replayed() || first.body != again.body {
		t.Errorf("first %+v, again %+v", first, again)
	}
}

func TestHandler_R06_FailIsAProblemWithTheHandlersCode(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), nil, func(http.ResponseWriter, *http.Request, pgx.Tx) error {
		return fmt.Errorf("refund: %w", txidem.Fail("bad_amount", "amount must be <positive>"))
	})
	first, again := ask(h, "POST", "/x", "", "Idempotency-Key", "k"), ask(h, "POST", "/x", "", "Idempotency-Key", "k")
	id := toolcall.NewID("alice", "POST /x", "x:k").String()
	want := map[string]any{
		"type": "tag:txonce.dev,2026:failed", "title": "The request cannot be fulfilled", "status": 422.0, "detail": "amount must be <positive>",
		"code": "bad_amount", "call_id": id, "instance": "urn:uuid:" + id, "repeat_same_call": false,
	}
	if diff := cmp.Diff(want, first.document()); diff != "" || first.status != 422 {
		t.Errorf("%d %s", first.status, diff)
	}
	if again.body != first.body || !again.replayed() || again.status != 422 {
		t.Errorf("again: %+v", again)
	}
}

// TestHandler_R11_PostgresAsksForARepeat: the handler runs again, with a body and a response of its own.
func TestHandler_R11_PostgresAsksForARepeat(t *testing.T) {
	t.Parallel()
	runs := 0
	b := setup(t, nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		runs++
		body := make([]byte, 16)
		n, _ := r.Body.Read(body)
		_, _ = fmt.Fprintf(w, "run %d got %s", runs, body[:n])
		if runs == 1 {
			_, err := tx.Exec(r.Context(), `do $$ begin raise exception 'again' using errcode = '40001'; end $$`)
			httpidem.Abort(r.Context(), err)
		}
		return nil
	})
	if a := b.post("A-1", "k", `{"a":1}`); a.status != 200 || a.body != `run 2 got {"a":1}` {
		t.Errorf("%+v", a)
	}
	b.wantEffects(1)
}

// TestHandler_R16_ReplayMayBeRefused: who lost the right does not get the response, nor learns what was asked for.
func TestHandler_R16_ReplayMayBeRefused(t *testing.T) {
	t.Parallel()
	store := memory(t, &txidem.Config{Authorize: func(context.Context, txidem.Recorded) error { return errors.New("secret") }})
	h := protect(t, store, nil, created)
	ask(h, "POST", "/x", `{"a":1}`, "Idempotency-Key", "k")
	for _, body := range []string{`{"a":1}`, `{"a":2}`} {
		if a := ask(h, "POST", "/x", body, "Idempotency-Key", "k"); a.status != 403 || a.problem() != "not_allowed" || strings.Contains(a.body, "secret") || a.document()["differing_arguments"] != nil {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

// TestHandler_R13_ExpiredIsGone: under Refuse, the request is never done twice.
func TestHandler_R13_ExpiredIsGone(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store, err := txidem.NewMemory(&txidem.Config{Policy: &txidem.Policy{OnExpired: txidem.Refuse}}, &txidem.MemoryConfig{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	h := protect(t, store, nil, created)
	ask(h, "POST", "/x", "", "Idempotency-Key", "k")
	now = now.Add(25 * time.Hour)
	if a := ask(h, "POST", "/x", "", "Idempotency-Key", "k"); a.status != 410 || a.problem() != "expired" || !strings.Contains(a.body, "2030-01-01T00:00:00Z") {
		t.Errorf("%+v", a)
	}
}

func TestHandler_R21_FullScopeIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, &txidem.Config{Policy: &txidem.Policy{Quota: 1}}), nil, created)
	ask(h, "POST", "/x", "", "Idempotency-Key", "a")
	if a := ask(h, "POST", "/x", "", "Idempotency-Key", "b"); a.status != 429 || a.problem() != "over_quota" || a.header.Get("Retry-After") != "60" {
		t.Errorf("%+v", a)
	}
}

// TestHandler_R08_ConnectionCutAroundCommit: the client gets the truth, and the effect is there once.
func TestHandler_R08_ConnectionCutAroundCommit(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultconn.Fault{
		"before COMMIT is read": {Write: faultconn.Executes, Pass: faultconn.Nothing},
		"behind COMMIT":         {Write: faultconn.Executes, Then: faultconn.CutAtAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wire := &faultconn.Dialer{}
			runs := 0
			b := setup(t, nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
				if runs++; runs == 1 {
					faultconn.Of(tx.Conn().PgConn().Conn()).Arm(fault)
				}
				return created(w, r, tx)
			}, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc })
			first := b.post("A-1", "k", `{}`)
			b.want("first", first, 201, "", false)
			again := b.post("A-1", "k", `{}`)
			b.want("again", again, 201, "", true)
			if first.body != again.body {
				t.Errorf("%q, then %q", first.body, again.body)
			}
			b.wantEffects(1)
		})
	}
}

// TestHandler_R08_UnknownOutcomeIsSaid: no database to ask, so nobody is told "done" or "not done".
func TestHandler_R08_UnknownOutcomeIsSaid(t *testing.T) {
	t.Parallel()
	wire := &faultconn.Dialer{}
	b := setup(t, &httpidem.Config{Policy: &txidem.Policy{CommitTimeout: 200 * time.Millisecond}}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		faultconn.Of(tx.Conn().PgConn().Conn()).Arm(faultconn.Fault{Write: faultconn.Executes, Then: faultconn.CutAtAnswer})
		wire.Down(true)
		return created(w, r, tx)
	}, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc })
	first := b.post("A-1", "k", `{}`)
	b.want("first", first, 503, "outcome_unknown", false)
	if first.header.Get("Retry-After") != "1" || first.document()["repeat_same_call"] != true {
		t.Errorf("%v %s", first.header, first.body)
	}
	down := b.post("B-1", "other", `{}`)
	b.want("no database", down, 503, "unavailable", false)
	if down.header.Get("Retry-After") != "5" {
		t.Errorf("%v", down.header)
	}
	wire.Down(false)
	b.want("again", b.post("A-1", "k", `{}`), 201, "", true)
	b.wantEffects(1)
}

// TestHandler_R09_ClientLeaves: the handler's context ends, nothing is done, and the next try runs.
func TestHandler_R09_ClientLeaves(t *testing.T) {
	t.Parallel()
	entered, left := make(chan struct{}), make(chan struct{})
	runs := 0
	b := newBench(t, nil)
	h := b.routes(nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if runs++; runs == 1 {
			close(entered)
			<-r.Context().Done()
			return r.Context().Err()
		}
		return created(w, r, tx)
	})
	b.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			close(left)
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if _, err := try(ctx, "POST", b.url+"/orders/A-1/refunds", `{}`, "Idempotency-Key", "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-left
	b.want("again", b.post("A-1", "k", `{}`), 201, "", false)
	b.wantEffects(1)
}

// TestHandler_R10_AbortHandlerClosesTheConnection: net/http's own way to end a response keeps its meaning, and rolls back.
func TestHandler_R10_AbortHandlerClosesTheConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.WriteHeader(201)
		panic(http.ErrAbortHandler)
	})
	if a, err := try(t.Context(), "POST", b.url+"/orders/A-1/refunds", `{}`, "Idempotency-Key", "k"); err == nil {
		t.Errorf("got %+v, want a closed connection", a)
	}
	b.wantEffects(0)
}
