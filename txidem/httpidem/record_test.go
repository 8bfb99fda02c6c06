package httpidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_H02_RecordThatIsNoResponse: somebody else has the identity, by txidem.Run or by hand. It is not shown, and the
// request does not run.
func TestHandler_H02_RecordThatIsNoResponse(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(context.Context, pgx.Tx) (json.RawMessage, error){
		"another answer": func(context.Context, pgx.Tx) (json.RawMessage, error) { return json.RawMessage(`{"secret":1}`), nil },
		"no object":      func(context.Context, pgx.Tx) (json.RawMessage, error) { return json.RawMessage(`"secret"`), nil },
		"another failure": func(context.Context, pgx.Tx) (json.RawMessage, error) {
			return nil, txidem.Fail("bad_amount", "secret")
		},
		"a failure of our own kind": func(context.Context, pgx.Tx) (json.RawMessage, error) { return nil, txidem.Fail("http_422", "secret") },
	} {
		store := memory(t, nil)
		_, _ = txidem.Run(t.Context(), store, txidem.Request{Scope: "alice", Tool: "POST /x", Key: "k", Args: json.RawMessage(`{"method":"POST","path":"/x"}`)}, record)
		h := protect(t, store, nil, func(http.ResponseWriter, *http.Request, pgx.Tx) error { t.Errorf("%s: it ran", name); return nil })
		if a := ask(h, "POST", "/x", "", "Idempotency-Key", "k"); a.status != 500 || a.problem() != "fault" || a.document()["call_id"] == nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestHandler_R07_ResponseHasABound, also where it is not recorded: it is kept in memory.
func TestHandler_R07_ResponseHasABound(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), &httpidem.Config{Policy: &txidem.Policy{MaxAnswer: 100}}, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.WriteHeader(http.StatusServiceUnavailable)
		if _, err := w.Write(make([]byte, 100)); err != nil {
			t.Error(err)
		}
		if _, err := w.Write([]byte{0}); !errors.Is(err, txidem.ErrAnswerTooLarge) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if a := ask(h, "POST", "/x", "", "Idempotency-Key", "k"); a.status != 500 || a.problem() != "fault" {
		t.Errorf("%+v", a)
	}
}
