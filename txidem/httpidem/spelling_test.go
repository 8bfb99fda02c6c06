package httpidem_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestHandler_H02_KeptHeadersInAnotherSpelling: ETag is written so by many.
func TestHandler_H02_KeptHeadersInAnotherSpelling(t *testing.T) {
	t.Parallel()
	url := serve(t, protect(t, memory(t, nil), nil, func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
		w.Header()["ETag"] = []string{`"7"`}
		w.Header()["content-type"] = []string{"text/x"}
		w.Header()["idempotent-replayed"] = []string{"true"}
		_, err := io.WriteString(w, "x")
		return err
	}))
	first, again := send(t, "POST", url, "", "Idempotency-Key", "k"), send(t, "POST", url, "", "Idempotency-Key", "k")
	if first.replayed() || !again.replayed() {
		t.Errorf("replayed: %v %v", first.replayed(), again.replayed())
	}
	for _, name := range []string{"Etag", "Content-Type"} {
		if f, a := first.header.Values(name), again.header.Values(name); fmt.Sprint(f) != fmt.Sprint(a) {
			t.Errorf("%s: first %q, again %q", name, f, a)
		}
	}
}
