package statustool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/toolcall"
)

func handlerOf(t *testing.T, f *fake) http.Handler {
	t.Helper()
	h, err := Handler(&HandlerConfig{Scope: func(r *http.Request) (string, error) {
		switch who := r.Header.Get("Caller"); who {
		case "":
			return "", errors.New("secret")
		case "mallory":
			return who, fmt.Errorf("%w: secret", ErrForbidden)
		case "panics":
			panic("secret")
		default:
			return strings.TrimPrefix(who, "nobody"), nil
		}
	}}, f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// get asks as somebody.
func get(h http.Handler, method, who, target string) (*httptest.ResponseRecorder, Report) {
	r := httptest.NewRequest(method, target, nil)
	if who != "" {
		r.Header.Set("Caller", who)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var report Report
	_ = json.Unmarshal(w.Body.Bytes(), &report)
	return w, report
}

// TestHandler_S08_SaysWhatTheToolSays about each state, in the same shape.
func TestHandler_S08_SaysWhatTheToolSays(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := handlerOf(t, f)
	var b strings.Builder
	for _, c := range cases() {
		f.change(func() { clear(f.is) })
		code := http.StatusNotFound
		if c.status.State != toolcall.StateNone {
			f.set(scope, c.status)
			code = http.StatusOK
		}
		w, got := get(h, http.MethodGet, scope, "/api/status/"+c.status.ID.String())
		want := reportOf(c.status)
		want.Next, want.RetryAfter, want.Result = got.Next, got.RetryAfter, c.status.Answer
		if diff := cmp.Diff(*want, got); diff != "" || w.Code != code {
			t.Errorf("%s: %d (-want +got):\n%s", c.label, w.Code, diff)
		}
		header := w.Header()
		if header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/json" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", c.label, header)
		}
		if after := header.Get("Retry-After"); (after == "") != (got.RetryAfter == 0) || after != "" && after != fmt.Sprint(got.RetryAfter) {
			t.Errorf("%s: Retry-After %q for %d", c.label, after, got.RetryAfter)
		}
		fmt.Fprintf(&b, "## %s\n%s\n\n", c.label, got.Next)
	}
	golden(t, "http.golden", b.String())
}

// TestHandler_S08_Refusals have the codes of HTTP, and the one shape.
func TestHandler_S08_Refusals(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.bad[manyID(9)] = true
	f.set(scope, broken())
	h := handlerOf(t, f)
	id := jobID(2).String()
	for label, c := range map[string]struct {
		method, who, target string
		code                int
		state               toolcall.State
	}{
		"no caller":           {"GET", "", "/" + id, 401, StateNoCaller},
		"a caller of no name": {"GET", "nobody", "/" + id, 401, StateNoCaller},
		"not allowed":         {"GET", "mallory", "/" + id, 403, StateNoCaller},
		"no id":               {"GET", scope, "/status/7", 400, StateBadArgs},
		"nothing":             {"GET", scope, "/", 400, StateBadArgs},
		"no number":           {"GET", scope, "/" + id + "?wait=x", 400, StateBadArgs},
		"NaN":                 {"GET", scope, "/" + id + "?wait=NaN", 400, StateBadArgs},
		"not there":           {"GET", scope, "/" + id + "?wait=9", 404, toolcall.StateNone},
		"another's":           {"GET", "bob", "/" + jobID(1).String(), 404, toolcall.StateNone},
		"cannot be read":      {"GET", scope, "/" + manyID(9).String(), 503, StateUnavailable},
		"a panic":             {"GET", "panics", "/" + id, 503, StateUnavailable},
		"a broken answer":     {"GET", scope, "/" + jobID(1).String(), 200, toolcall.StateSucceeded},
		"HEAD":                {"HEAD", scope, "/" + id, 404, toolcall.StateNone},
		"POST":                {"POST", scope, "/" + id, 405, ""},
	} {
		w, got := get(h, c.method, c.who, c.target)
		if w.Code != c.code || got.State != c.state || strings.Contains(w.Body.String(), "secret") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %s", label, w.Code, w.Body)
		}
		if c.code == 405 != (w.Header().Get("Allow") != "") || c.code == 503 != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: %v", label, w.Header())
		}
	}
}

// TestHandler_S05_ForeignAndUnknownAreTheSame, byte for byte.
func TestHandler_S05_ForeignAndUnknownAreTheSame(t *testing.T) {
	t.Parallel()
	f := newFake()
	h := handlerOf(t, f)
	for _, c := range cases() {
		target := "/" + c.status.ID.String()
		f.change(func() { clear(f.is) })
		unknown, _ := get(h, http.MethodGet, scope, target)
		f.set("bob", c.status)
		foreign, _ := get(h, http.MethodGet, scope, target)
		if !cmp.Equal(unknown.Body.String(), foreign.Body.String()) || !cmp.Equal(unknown.Header(), foreign.Header()) || unknown.Code != foreign.Code {
			t.Errorf("%s: %s, %s", c.label, unknown.Body, foreign.Body)
		}
	}
}

// TestHandler_S03_WaitsForTheEnd, and for no client that has left.
func TestHandler_S03_WaitsForTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.set(scope, job(toolcall.StateRunning))
		h := handlerOf(t, f)
		begun := time.Now()
		if _, got := get(h, http.MethodGet, scope, "/"+jobID(1).String()+"?wait=100"); got.State != toolcall.StateRunning || time.Since(begun) != defaultWait {
			t.Errorf("%+v after %v", got, time.Since(begun))
		}
		go func() {
			time.Sleep(3 * time.Second)
			f.set(scope, job(toolcall.StateSucceeded))
			f.Notify()
		}()
		begun = time.Now()
		if _, got := get(h, http.MethodGet, scope, "/"+jobID(1).String()+"?wait=20"); got.State != toolcall.StateSucceeded || time.Since(begun) > 3*time.Second+least {
			t.Errorf("%+v after %v", got, time.Since(begun))
		}
	})
}

func TestHandler_S08_BadConfigIsRefused(t *testing.T) {
	t.Parallel()
	who := func(*http.Request) (string, error) { return scope, nil }
	for want, c := range map[string]struct {
		cfg     *HandlerConfig
		sources []toolcall.Source
	}{
		"HandlerConfig.Scope":   {nil, []toolcall.Source{newFake()}},
		"Scope is missing":      {&HandlerConfig{}, []toolcall.Source{newFake()}},
		"a source is missing":   {&HandlerConfig{Scope: who}, nil},
		"HandlerConfig.MaxWait": {&HandlerConfig{Scope: who, MaxWait: -1}, []toolcall.Source{newFake()}},
		"HandlerConfig.Poll":    {&HandlerConfig{Scope: who, Poll: -1}, []toolcall.Source{newFake()}},
	} {
		if _, err := Handler(c.cfg, c.sources...); err == nil || !strings.HasPrefix(err.Error(), "statustool: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
