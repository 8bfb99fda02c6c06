package httpidem

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/txidem"
)

const orderBody = `{"id":"A-1042","customer":"C-77","currency":"EUR","cents":105000,"tax":19950,"express":true,"city":"Belgaum","zip":"590001","country":"IN","note":"ring twice"}`

// BenchmarkHandler_10Fields tells what the adapter adds to txidem.Run: the same calls, each a first one, through both in turns,
// with the same arguments and on a store without Postgres, whose time would drown the difference. The last metric is the difference
// per request, its recorder and the handler's own reading of the body included.
func BenchmarkHandler_10Fields(b *testing.B) {
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	adapter, err := New(store, &Config{Scope: ScopeIs("agent")})
	if err != nil {
		b.Fatal(err)
	}
	handler := adapter.Handler(func(w http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
		var in struct {
			ID string `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			return err
		}
		w.WriteHeader(http.StatusCreated)
		_, err := fmt.Fprintf(w, `{"id":%q}`, in.ID)
		return err
	})
	var spent [2]time.Duration
	calls := [2]func(key string) error{
		func(key string) error {
			_, err := txidem.Run(b.Context(), store, txidem.Request{Scope: "agent", Tool: "bare", Key: key, Args: json.RawMessage(orderBody)},
				func(context.Context, pgx.Tx) (string, error) { return `{"id":"A-1042"}`, nil })
			return err
		},
		func(key string) error {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/orders", strings.NewReader(orderBody))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(HeaderKey, key)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusCreated {
				return fmt.Errorf("%d: %s", w.Code, w.Body)
			}
			return nil
		},
	}
	for i := 0; b.Loop(); i++ {
		key := "k" + strconv.Itoa(i)
		for j := range calls {
			which := (i + j) % 2 // in turns, also who is first
			start := time.Now()
			if err := calls[which](key); err != nil {
				b.Fatal(err)
			}
			spent[which] += time.Since(start)
		}
	}
	perCall := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(perCall(spent[0]), "run-µs/op")
	b.ReportMetric(perCall(spent[1]-spent[0]), "added-µs/op")
}
