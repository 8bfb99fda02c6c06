package httpidem_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/txidem/httpidem"
)

// TestHandler_H02_ReplayIsByteForByte: whatever a handler says, a client that repeats its request over a real connection
// gets it again, but for the date and the headers that are not kept.
func TestHandler_H02_ReplayIsByteForByte(t *testing.T) {
	t.Parallel()
	var say handler
	server := httptest.NewServer(protect(t, memory(t, nil), &httpidem.Config{Headers: []string{"X-Raw"}, Record: func(int) bool { return true }},
		func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error { return say(w, r, tx) }))
	defer server.Close()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		status := rapid.OneOf(rapid.IntRange(200, 499), rapid.SampledFrom([]int{200, 201, 204, 304, 400, 422})).Draw(rt, "status")
		chunks := rapid.SliceOfN(rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 80), rapid.SampledFrom([][]byte{nil, {0}, {0xff}, []byte("é"), []byte("\u2028<&>"), []byte(`"\`), bytes.Repeat([]byte("x"), 5000)})), 0, 3).Draw(rt, "chunks")
		headers := rapid.MapOf(rapid.SampledFrom([]string{"X-Raw", "Location", "Content-Type", "Etag", "Link", "Set-Cookie", "X-Other"}),
			rapid.SliceOfN(rapid.StringMatching(`[!-~\x80-\xff]{1,20}`), 1, 2)).Draw(rt, "headers")
		runs := 0
		say = func(w http.ResponseWriter, _ *http.Request, _ pgx.Tx) error {
			runs++
			for name, values := range headers {
				for _, v := range values {
					w.Header().Add(name, latin1(v))
				}
			}
			w.WriteHeader(status)
			for _, chunk := range chunks {
				_, _ = w.Write(chunk) // refused where there may be no body
			}
			return nil
		}
		n++
		key := fmt.Sprint("k", n)
		first, again := repeat(rt, t, server.URL, key), repeat(rt, t, server.URL, key)
		if runs != 1 || first.replayed() || !again.replayed() {
			rt.Fatalf("%d runs, replayed %v and %v", runs, first.replayed(), again.replayed())
		}
		again.header.Del("Idempotent-Replayed")
		for _, a := range []answer{first, again} {
			a.header.Del("Date")
		}
		if again.header["Set-Cookie"] != nil || again.header["X-Other"] != nil {
			rt.Fatalf("the replay has %v", again.header)
		}
		first.header.Del("Set-Cookie")
		first.header.Del("X-Other")
		if diff := cmp.Diff(first, again, cmp.AllowUnexported(answer{})); diff != "" {
			rt.Fatalf("the replay is another response:\n%s", diff)
		}
		if want := string(bytes.Join(chunks, nil)); status != 204 && status != 304 && first.body != want {
			rt.Fatalf("body %q, want %q", first.body, want)
		}
	})
}

func repeat(rt *rapid.T, t *testing.T, url, key string) answer {
	a, err := try(t.Context(), "POST", url, `{}`, "Idempotency-Key", key)
	if err != nil {
		rt.Fatal(err)
	}
	return a
}

// latin1 makes of each character one byte: what old clients and servers put into headers.
func latin1(s string) string {
	var b []byte
	for _, c := range s {
		b = append(b, byte(c))
	}
	return string(b)
}
