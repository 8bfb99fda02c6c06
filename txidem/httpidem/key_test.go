package httpidem_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

func TestHandler_H01_Key(t *testing.T) {
	t.Parallel()
	runs := 0
	h := protect(t, memory(t, nil), nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		runs++
		return created(w, r, tx)
	})
	for _, c := range []struct {
		label    string
		keys     []string
		status   int
		problem  string
		replayed bool
	}{
		{"none", nil, 400, "no_key", false},
		{"empty", []string{""}, 400, "bad_key", false},
		{"an empty string", []string{`""`}, 400, "bad_key", false},
		{"half a string", []string{`"abc`}, 400, "bad_key", false},
		{"two", []string{"abc", "abc"}, 400, "bad_key", false},
		{"too long", []string{strings.Repeat("k", 256)}, 400, "bad_key", false},
		{"not to be printed", []string{"a\x01b"}, 400, "bad_key", false},
		{"bare", []string{"abc"}, 201, "", false},
		{"a string", []string{`"abc"`}, 201, "", true},
		{"a string with parameters", []string{`"abc";v=1`}, 201, "", true},
		{"in another case", []string{"ABC"}, 201, "", false},
		{"255 bytes", []string{strings.Repeat("k", 255)}, 201, "", false},
		{"with escapes", []string{`"a\"\\"`}, 201, "", false},
		{"without them", []string{`a"\`}, 201, "", true},
	} {
		var headers []string
		for _, key := range c.keys {
			headers = append(headers, "Idempotency-Key", key)
		}
		a := ask(h, "POST", "/refunds", `{}`, headers...)
		if a.status != c.status || a.problem() != c.problem || a.replayed() != c.replayed {
			t.Errorf("%s: got %+v", c.label, a)
		}
		if a.status == 400 && !strings.HasSuffix(a.document()["detail"].(string), "Nothing was done.") {
			t.Errorf("%s: %s", c.label, a.body)
		}
	}
	if runs != 4 {
		t.Errorf("%d runs, want 4", runs)
	}
}

// TestHandler_K07_SameKeyOtherRequest is a mismatch in whatever a request asks for, and the names of what differs.
func TestHandler_K07_SameKeyOtherRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, created)
	post := func(path, body string, headers ...string) answer {
		return send(t, "POST", b.url+"/orders/"+path, body, append(headers, "Idempotency-Key", "k")...)
	}
	const body = `{"cents": 1050, "lines": [{"sku": "a"}], "memo": "x"}`
	b.want("first", post("A-1/refunds?dry=1&tag=a&tag=b", body), 201, "", false)
	for label, c := range map[string]struct {
		path, body string
		headers    []string
		differing  []any // nil for none: a replay
	}{
		"the same":              {"A-1/refunds?dry=1&tag=a&tag=b", body, nil, nil},
		"in other spelling":     {"A-1/refunds?tag=a&tag=b&dry=%31", `{"memo":"\u0078","lines":[{"sku":"a"}],"cents":1.05e3}`, []string{"Content-Type", "application/json; charset=utf-8"}, nil},
		"other cents":           {"A-1/refunds?dry=1&tag=a&tag=b", `{"cents": 1051, "lines": [{"sku": "a"}], "memo": "x"}`, nil, []any{"/body/cents"}},
		"another line":          {"A-1/refunds?dry=1&tag=a&tag=b", `{"cents": 1050, "lines": [{"sku": "b"}], "memo": "x"}`, nil, []any{"/body/lines/0/sku"}},
		"another order":         {"A-2/refunds?dry=1&tag=a&tag=b", body, nil, []any{"/path"}},
		"another query":         {"A-1/refunds?dry=2&tag=a&tag=b", body, nil, []any{"/query/dry/0"}},
		"tags in another order": {"A-1/refunds?dry=1&tag=b&tag=a", body, nil, []any{"/query/tag/0", "/query/tag/1"}},
		"duplicate members":     {"A-1/refunds?dry=1&tag=a&tag=b", `{"cents": 1050, "cents": 1050}`, nil, []any{"/body", "/body_sha256"}},
		"no body":               {"A-1/refunds?dry=1&tag=a&tag=b", ``, nil, []any{"/body"}},
	} {
		a := post(c.path, c.body, c.headers...)
		if c.differing == nil {
			b.want(label, a, 201, "", true)
			continue
		}
		b.want(label, a, 422, "key_reused", false)
		if diff := cmp.Diff(c.differing, a.document()["differing_arguments"]); diff != "" {
			t.Errorf("%s:\n%s", label, diff)
		}
	}
	b.wantEffects(1)
}

// TestHandler_K04_BodiesThatAreNotJSONCountByTheirBytes, and so does JSON of which nobody said that it is.
func TestHandler_K04_BodiesThatAreNotJSONCountByTheirBytes(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64) // good alone, too deep as a part of the request
	for _, c := range []struct{ contentType, first, other string }{
		{"text/plain", `{"a":1}`, `{"a": 1}`},
		{"", `{"a":1}`, `{"a": 1}`},
		{"application/octet-stream", "\x00\xff", "\x00\xfe"},
		{"application/json", `{"a":1,"a":1}`, `{"a":1,"a":2}`},
		{"application/json", "{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"},
		{"application/json", `{"a":`, `{"a": `},
		{"application/json", deep, deep + " "},
		{"application/json", `"\ud800"`, `"\ud801"`},
	} {
		h := protect(t, memory(t, nil), nil, created)
		post := func(body string) answer {
			return ask(h, "POST", "/x", body, "Idempotency-Key", "k", "Content-Type", c.contentType)
		}
		if a := post(c.first); a.status != 201 || a.replayed() {
			t.Errorf("%q: %+v", c.first, a)
		}
		if a := post(c.first); !a.replayed() {
			t.Errorf("%q again: %+v", c.first, a)
		}
		if a := post(c.other); a.status != 422 || a.problem() != "key_reused" {
			t.Errorf("%q: %+v", c.other, a)
		}
	}
}

func TestHandler_K04_VendorsJSONIsJSON(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), nil, created)
	ask(h, "POST", "/x", `{"a":1}`, "Idempotency-Key", "k", "Content-Type", "application/merge-patch+json")
	if a := ask(h, "POST", "/x", `{ "a": 1.0 }`, "Idempotency-Key", "k", "Content-Type", `application/merge-patch+json; profile="x"`); !a.replayed() {
		t.Errorf("%+v", a)
	}
}

// TestHandler_K07_NoTwoQueriesAreOne: bytes that are no text, and queries that cannot be parsed, count as they are.
func TestHandler_K07_NoTwoQueriesAreOne(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), &httpidem.Config{Operation: func(*http.Request) string { return "x" }}, created)
	queries := []string{"a=%ff", "a=%fe", "a=1;b=2", "a=1;b=3", "a=%zz", "a=%zy", "%ff=a", "", "a", "a=&a=", "a=1", "a=1&b=2"}
	for i, query := range queries {
		for j, other := range queries {
			key := fmt.Sprint(i, "-", j)
			ask(h, "POST", "/x?"+query, "", "Idempotency-Key", key)
			if a := ask(h, "POST", "/x?"+other, "", "Idempotency-Key", key); (a.status == 201) != (i == j) || a.replayed() != (i == j) {
				t.Errorf("%q, then %q: %+v", query, other, a)
			}
		}
	}
}

func TestHandler_K05_K08_WhatDoesNotCountMayDiffer(t *testing.T) {
	t.Parallel()
	rules := txidem.RuleSpec{Ignore: []string{"/body/memo", "/query"}, RoundNumber: map[string]string{"/body/at": "60"}}
	h := protect(t, memory(t, nil), &httpidem.Config{Rules: rules}, created)
	ask(h, "POST", "/x?try=1", `{"cents":5,"memo":"one","at":61}`, "Idempotency-Key", "k")
	if a := ask(h, "POST", "/x?try=2", `{"cents":5,"memo":"two","at":119}`, "Idempotency-Key", "k"); !a.replayed() {
		t.Errorf("%+v", a)
	}
	if a := ask(h, "POST", "/x?try=2", `{"cents":6,"memo":"two","at":119}`, "Idempotency-Key", "k"); a.problem() != "key_reused" {
		t.Errorf("%+v", a)
	}
}

// TestHandler_K03_WithoutAKeyTheRequestIsTheKey, where that is wanted.
func TestHandler_K03_WithoutAKeyTheRequestIsTheKey(t *testing.T) {
	t.Parallel()
	runs := 0
	h := protect(t, memory(t, nil), &httpidem.Config{Key: httpidem.KeyOptional}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		runs++
		return created(w, r, tx)
	})
	for _, c := range []struct {
		method, target, body string
		headers              []string
		replayed             bool
	}{
		{"POST", "/x", `{"a":1}`, nil, false},
		{"POST", "/x", `{"a":1.0}`, nil, true},
		{"POST", "/x", `{"a":2}`, nil, false},
		{"PUT", "/x", `{"a":1}`, nil, false},
		{"POST", "/y", `{"a":1}`, nil, false},
		{"POST", "/x?z", `{"a":1}`, nil, false},
		{"POST", "/x", `{"a":1}`, []string{"Idempotency-Key", "k"}, false}, // with a key and without are two
	} {
		if a := ask(h, c.method, c.target, c.body, c.headers...); a.status != 201 || a.replayed() != c.replayed {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	if runs != 6 {
		t.Errorf("%d runs", runs)
	}
}

// TestHandler_K01_CallersDoNotMeet: the scope is asked on each request, and may look at the body.
func TestHandler_K01_CallersDoNotMeet(t *testing.T) {
	t.Parallel()
	scope := func(r *http.Request) (string, error) {
		_ = r.ParseForm() // reads the body
		if _, err := r.Body.Read(make([]byte, 9)); err != nil && r.ContentLength > 0 {
			return "", err
		}
		user := r.Header.Get("X-User")
		if user == "" {
			return "", errors.New("secret")
		}
		return user, nil
	}
	store := memory(t, nil)
	h := protect(t, store, &httpidem.Config{Scope: scope}, func(w http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
		_, err := w.Write([]byte("for " + r.Header.Get("X-User")))
		return err
	})
	for _, c := range []struct {
		user, want string
		status     int
	}{{"alice", "for alice", 200}, {"bob", "for bob", 200}, {"alice", "for alice", 200}, {"", "", 401}, {strings.Repeat("u", 256), "", 401}} {
		a := ask(h, "POST", "/x", `{"a":1}`, "Idempotency-Key", "k", "X-User", c.user)
		if a.status != c.status || c.want != "" && a.body != c.want || strings.Contains(a.body, "secret") {
			t.Errorf("%s: %+v", c.user, a)
		}
		if c.status == 401 && a.problem() != "no_caller" {
			t.Errorf("%s: %s", c.user, a.body)
		}
	}
}
