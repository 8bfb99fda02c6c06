package mcpidem

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// order is an input of twenty fields.
type order struct {
	ID       string   `json:"id" jsonschema:"the order"`
	Customer string   `json:"customer"`
	Currency string   `json:"currency"`
	Cents    int64    `json:"cents"`
	Tax      int64    `json:"tax"`
	Discount float64  `json:"discount"`
	Express  bool     `json:"express"`
	Gift     bool     `json:"gift"`
	Street   string   `json:"street"`
	House    string   `json:"house"`
	City     string   `json:"city"`
	Zip      string   `json:"zip"`
	Country  string   `json:"country"`
	Phone    string   `json:"phone"`
	Mail     string   `json:"mail"`
	Tags     []string `json:"tags"`
	Weight   float64  `json:"weight"`
	Parcels  int      `json:"parcels"`
	Note     string   `json:"note"`
	Memo     string   `json:"memo,omitempty" idem:"-"`
}

type placed struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Cents  int64  `json:"cents"`
}

const orderArgs = `{"id":"A-1042","customer":"C-77","currency":"EUR","cents":105000,"tax":19950,"discount":2.5,"express":true,"gift":false,` +
	`"street":"Long Lane","house":"12b","city":"Belgaum","zip":"590001","country":"IN","phone":"+91 831 555 0100","mail":"a@example.com",` +
	`"tags":["books","new"],"weight":1.25,"parcels":2,"note":"ring twice","memo":"as discussed"}`

// BenchmarkAddTool_20Fields tells what the adapter adds to txidem.Run: the same calls, each a first one, with the same arguments and
// the same answer through both in turns, on a store without Postgres, whose time would drown the difference. The last metric is the
// difference per call; the goal is 50 µs.
func BenchmarkAddTool_20Fields(b *testing.B) {
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	a, err := New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), store, &Config{Scope: ScopeIs("agent")})
	if err != nil {
		b.Fatal(err)
	}
	def := guarded(a, &mcp.Tool{Name: "order"}, nil, func(context.Context, pgx.Tx, order) (placed, error) { return placed{ID: "A-1042"}, nil })
	var spent [2]time.Duration
	calls := [2]func(key string) error{
		func(key string) error {
			_, err := txidem.Run(b.Context(), store, txidem.Request{Scope: "agent", Tool: "bare", Key: key, Args: json.RawMessage(orderArgs), Rules: def.rules},
				func(context.Context, pgx.Tx) (placed, error) { return placed{ID: "A-1042"}, nil })
			return err
		},
		func(key string) error {
			r, err := def.call(b.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{
				Meta: mcp.Meta{MetaKey: key}, Name: "order", Arguments: json.RawMessage(orderArgs),
			}})
			if err == nil && r.IsError {
				err = fmt.Errorf("refused: %s", r.StructuredContent)
			}
			return err
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
