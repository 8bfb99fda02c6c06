package mcpidem_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestCall_M06_PanicInAHookDoesNotEndTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, func(context.Context, *mcp.CallToolRequest) (string, error) { panic("secret detail") }, nil)
	r := b.call(b.connect(), `{"order":"A","cents":1}`, "k")
	if !r.IsError || status(r) != "outcome_unknown" || strings.Contains(text(r), "secret") || !strings.Contains(b.log.String(), "secret detail") {
		t.Errorf("%v %s", status(r), text(r))
	}
}

func TestCall_M06_TypedNilFailureIsAnOrdinaryError(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var none *toolcall.Failure
	b.handle = func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, none }
	if r := b.call(b.connect(), `{"order":"A","cents":1}`, "k"); !r.IsError || status(r) != "not_done" {
		t.Errorf("%v %s", status(r), text(r))
	}
}

// headerTransport sends a header with each request.
type headerTransport struct {
	values []string
	next   http.RoundTripper
}

func (h headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for _, v := range h.values {
		req.Header.Add("Idempotency-Key", v)
	}
	return h.next.RoundTrip(req)
}

func TestAddTool_K02_KeyFromTheHeader(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeFromToken, nil)
	url := b.serveHTTP(true)
	call := func(args, meta string, headers ...string) *mcp.CallToolResult {
		transport := &http.Transport{}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "alice", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: url, HTTPClient: &http.Client{Transport: bearer{"alice", headerTransport{headers, transport}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { session.Close(); transport.CloseIdleConnections() }()
		return b.call(session, args, meta)
	}
	first := call(`{"order":"A","cents":1}`, "", "abc")
	id := first.Meta[mcpidem.MetaCallID]
	for label, r := range map[string]*mcp.CallToolResult{
		"quoted, as a structured field":    call(`{"order":"A","cents":1}`, "", `"abc"`),
		"over the model's":                 call(`{"order":"A","cents":1,"idempotency_key":"model"}`, "", "abc"),
		"the same in _meta":                call(`{"order":"A","cents":1}`, "abc"),
		"_meta over the header":            call(`{"order":"A","cents":1}`, "abc", "other"),
		"the model's, where there is none": call(`{"order":"A","cents":1,"idempotency_key":"abc"}`, ""),
	} {
		if !replayed(r) || r.Meta[mcpidem.MetaCallID] != id {
			t.Errorf("%s: %v %s", label, r.Meta, text(r))
		}
	}
	if r := call(`{"order":"A","cents":1}`, "", "abc", "def"); status(r) != "bad_key" {
		t.Errorf("two headers: %v %s", status(r), text(r))
	}
	if r := call(`{"order":"A","cents":1}`, "", `"abc`); status(r) != "bad_key" {
		t.Errorf("half a quotation: %v %s", status(r), text(r))
	}
	if n := b.effects(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestCall_DefaultsKeepTheDigitsOfWhatIsGiven(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	type inner struct {
		N    int64  `json:"n"`
		Unit string `json:"unit"`
	}
	type input struct {
		N     int64  `json:"n"`
		Memo  string `json:"memo"`
		Inner inner  `json:"inner"`
	}
	var got input
	mcpidem.AddTool(b.idem, &mcp.Tool{Name: "big", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"memo":{"type":"string","default":"none"},
		"inner":{"type":"object","properties":{"n":{"type":"integer"},"unit":{"type":"string","default":"cents"}}}}}`)},
		func(_ context.Context, _ pgx.Tx, in input) (map[string]int, error) { got = in; return nil, nil })
	r, err := b.connect().CallTool(t.Context(), &mcp.CallToolParams{Name: "big", Arguments: json.RawMessage(`{"n":9223372036854775807,"inner":{"n":9223372036854775807}}`)})
	want := input{math.MaxInt64, "none", inner{math.MaxInt64, "cents"}}
	if err != nil || r.IsError || got != want {
		t.Errorf("got %+v (%v, %s), want %+v", got, err, text(r), want)
	}
}
