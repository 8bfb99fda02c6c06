package mcpidem_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestAddToolRaw_R05_ResultThatCannotBeReplayedIsNotCommitted(t *testing.T) {
	t.Parallel()
	runs := 0
	s := newShop(t, nil)
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "label", InputSchema: rawInput}, nil, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		runs++
		return &mcp.CallToolResult{Content: []mcp.Content{nil}}, nil
	})
	session := s.connect(nil)
	for range 2 {
		wantRefusal(t, s.call(session, "label", `{"order":"A"}`, "k"), "tool_fault", false, "This tool has a fault. Nothing was changed by this call.")
	}
	if runs != 2 {
		t.Errorf("%d runs: it is recorded", runs)
	}
}

func TestCall_I02_AnswerOutlivesAChangeOfForm(t *testing.T) {
	t.Parallel()
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	deploy := func(raw bool) *shop {
		s := &shop{t: t, server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
		if s.idem, err = mcpidem.New(s.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")}); err != nil {
			t.Fatal(err)
		}
		if raw {
			mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "refund", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a picture"}}}, nil
			})
		} else {
			mcpidem.AddTool(s.idem, &mcp.Tool{Name: "refund"}, func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
				return receipt{Refund: "R-" + in.Order}, nil
			})
		}
		return s
	}
	before, after := deploy(false), deploy(true)
	b, a := before.connect(nil), after.connect(nil)
	for key, pair := range map[string][2]*mcp.ClientSession{"typed, then raw": {b, a}, "raw, then typed": {a, b}} {
		first, again := before.call(pair[0], "refund", `{"order":"A","cents":1}`, key), before.call(pair[1], "refund", `{"order":"A","cents":1}`, key)
		if first.IsError || !replayed(again) || !strings.HasPrefix(text(again), text(first)+"\n(Recorded") {
			t.Errorf("%s: first %q, again %v %q", key, text(first), status(again), text(again))
		}
	}
}

func TestAddTool_I02_AnswerIsNotTakenForTheFullForm(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ pgx.Tx, in map[string]any) (map[string]any, error) { return in, nil })
	wantRefusal(t, s.call(s.connect(nil), "echo", `{"dev.txonce/result":{"content":[{"type":"text","text":"forged"}]}}`, "k"), "tool_fault", false, "Nothing was changed")
}

func TestCall_R14_RecordOfAnotherWayIsNotCalledUndone(t *testing.T) {
	t.Parallel()
	b, _, call := leasedBench(t, false)
	call(one, "k")
	other := mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "2"}, nil)
	store, err := txidem.New(b.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.idem, err = mcpidem.New(other, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent")}); err != nil {
		t.Fatal(err)
	}
	mcpidem.AddTool(b.idem, &mcp.Tool{Name: "charge"}, guarded)
	b.server = other
	wantRefusal(t, b.callTool(b.connect(), "charge", one, "k"), "tool_fault", false, "it may have been done earlier")
}

func TestConfirm_M08_PanicDoesNotHideARecordedAnswer(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret})
	done := false
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: func(context.Context, json.RawMessage) (string, error) {
		if done {
			panic("secret detail")
		}
		return "", nil
	}}, guarded)
	session := s.connect(nil)
	s.call(session, "refund", dear, "k")
	done = true
	if r := s.call(session, "refund", dear, "k"); !replayed(r) {
		t.Errorf("a call that is done: %v %s", status(r), text(r))
	}
	if r := s.call(session, "refund", dear, "new"); status(r) != "tool_fault" || !strings.Contains(text(r), "Nothing was changed") {
		t.Errorf("a new call: %v %s", status(r), text(r))
	}
}

func TestConfirm_M08_FailureOfWhatAsksIsNotRecorded(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret})
	asked := 0
	cfg := &mcpidem.ToolConfig{Confirm: func(context.Context, json.RawMessage) (string, error) {
		if asked++; asked <= 2 {
			return "", txidem.Fail("closed", "the order is closed")
		}
		return "", nil
	}}
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, cfg, guarded)
	session := s.connect(nil)
	for range 2 {
		if r := s.call(session, "refund", dear, "k"); status(r) != "not_done" || !strings.Contains(text(r), "closed: the order is closed") {
			t.Errorf("got %v %s", status(r), text(r))
		}
	}
	if r := s.call(session, "refund", dear, "k"); r.IsError {
		t.Errorf("got %v %s", status(r), text(r))
	}
}

func TestConfirm_M08_WhatAsksCannotChangeTheCall(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret})
	var got int64
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: func(_ context.Context, args json.RawMessage) (string, error) {
		copy(args, `{"order":"A-1","cents":9950}`)
		return "", nil
	}}, func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) { got = in.Cents; return receipt{}, nil })
	if s.call(s.connect(nil), "refund", dear, "k"); got != 1050 {
		t.Errorf("the handler got %d cents", got)
	}
}

func TestConfirm_M08_ShortPolicyCanBeConfirmed(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret}, modern)
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{
		Confirm: mcpidem.ConfirmArgs(expensive), Policy: &txidem.Policy{Window: 1800 * time.Millisecond},
	}, guarded)
	k := &till{shop: s}
	now := time.Unix(1000, 999e6)
	s.idem.SetNow(func() time.Time { return now })
	session := k.byHand()
	state := s.call(session, "refund", dear, "k").RequestState
	now = now.Add(899 * time.Millisecond)
	if r := k.answer(session, dear, "k", state, "accept"); r.IsError || r.NeedsInput() {
		t.Errorf("within half of the window: asked again")
	}
	state = s.call(session, "refund", `{"order":"B","cents":1050}`, "k2").RequestState
	now = now.Add(900 * time.Millisecond)
	if r := k.answer(session, `{"order":"B","cents":1050}`, "k2", state, "accept"); !r.NeedsInput() {
		t.Errorf("after half of the window: %s", text(r))
	}
}

func TestConfirm_M08_NoToACutOffCallIsHeard(t *testing.T) {
	t.Parallel()
	b, p := setup(t, mcpidem.ScopeIs("agent"), nil), &provider{charges: map[string]int64{}, err: errors.New("connection reset")}
	store, err := txidem.New(b.pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, nil)
	idem, err := mcpidem.New(b.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent"), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	asks := false
	mcpidem.AddLeasedTool(idem, &mcp.Tool{Name: "charge"}, &mcpidem.ToolConfig{
		Policy: &txidem.Policy{OnLeaseLost: txidem.RerunLost},
		Confirm: func(context.Context, json.RawMessage) (string, error) {
			if asks {
				return "Once more?", nil
			}
			return "", nil
		},
	}, p.charge, nil)
	k := &till{shop: &shop{t: t, server: b.server}, says: "decline"}
	session := k.person()
	if r := b.callTool(session, "charge", one, "k"); status(r) != "outcome_unknown" {
		t.Fatalf("got %v %s", status(r), text(r))
	}
	asks = true
	r := b.callTool(session, "charge", one, "k")
	if status(r) != "declined" || strings.Contains(text(r), "Nothing was done.") || p.calls != 1 {
		t.Errorf("got %v %s; %d calls", status(r), text(r), p.calls)
	}
}

func TestAdd_M06_NilHandlersAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	for label, add := range map[string]func(){
		"AddTool":       func() { mcpidem.AddTool[refund, receipt](s.idem, &mcp.Tool{Name: "a"}, nil) },
		"AddToolRaw":    func() { mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "b", InputSchema: rawInput}, nil, nil) },
		"AddReadTool":   func() { mcpidem.AddReadTool[refund, receipt](s.idem, &mcp.Tool{Name: "d"}, nil) },
		"AddLeasedTool": func() { mcpidem.AddLeasedTool[refund, receipt](s.idem, &mcp.Tool{Name: "c"}, nil, nil, nil) },
	} {
		if got := panics(t, add); !strings.Contains(got, "has no handler") {
			t.Errorf("%s: %q", label, got)
		}
	}
}

func TestCall_I05_ErrorsOfAnotherCallAreNotThisOnes(t *testing.T) {
	t.Parallel()
	for label, inner := range map[string]error{
		"other arguments": &txidem.KeyReusedError{Paths: []string{"/secret"}},
		"expired":         &txidem.ExpiredError{FinishedAt: time.Now()},
	} {
		s := newShop(t, nil)
		mcpidem.AddTool(s.idem, &mcp.Tool{Name: "order"}, func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, inner })
		r := s.call(s.connect(nil), "order", dear, "k")
		if status(r) != "tool_fault" || !strings.Contains(text(r), "Nothing was changed by this call") {
			t.Errorf("%s: %v %s", label, status(r), text(r))
		}
	}
}

func TestAddLeasedTool_R15_ErrorWithoutProtectionIsNotCalledUndone(t *testing.T) {
	t.Parallel()
	b, p := setup(t, mcpidem.ScopeIs("agent"), nil), &provider{charges: map[string]int64{}, err: errors.New("timeout")}
	mcpidem.AddLeasedTool(b.idem, &mcp.Tool{Name: "charge"}, &mcpidem.ToolConfig{Policy: &txidem.Policy{Disabled: true}}, p.charge, nil)
	r := b.callTool(b.connect(), "charge", one, "k")
	if status(r) != "blocked" || len(p.charges) != 1 {
		t.Errorf("got %v %s; %d charges", status(r), text(r), len(p.charges))
	}
	if r := b.callTool(b.connect(), "charge", `{"order":"A-1"}`, "k"); status(r) != "bad_args" {
		t.Errorf("bad arguments: %v %s", status(r), text(r))
	}
	p.err = txidem.Fail("no_funds", "the account is empty")
	if r := b.callTool(b.connect(), "charge", one, "k"); status(r) != "failed" || !strings.Contains(text(r), "Correct the arguments") {
		t.Errorf("a failure: %v %s", status(r), text(r))
	}
}

func TestPublish_R15_UnprotectedToolDoesNotPromise(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "off", Description: "Refund."}, &mcpidem.ToolConfig{Policy: &txidem.Policy{Disabled: true}}, guarded)
	if got := s.tool("off").Description; strings.Contains(got, "Repeating a call is safe") || !strings.Contains(got, "each call is done again") {
		t.Errorf("got %q", got)
	}
}

func TestPublish_R13_RefusedForGoodIsSaid(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "once"}, &mcpidem.ToolConfig{Key: mcpidem.KeyOff, Policy: &txidem.Policy{OnExpired: txidem.Refuse}}, guarded)
	if got := s.tool("once").Description; !strings.Contains(got, "never done again") {
		t.Errorf("got %q", got)
	}
}

func TestCall_R06_CorrectedCallNeedsANewKey(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "refund"}, func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
		if in.Cents > 100 {
			return receipt{}, txidem.Fail("too_much", "at most 100 cents")
		}
		return receipt{}, nil
	})
	session := s.connect(nil)
	model := s.call(session, "refund", `{"order":"A","cents":101,"idempotency_key":"m"}`, "")
	if !strings.Contains(text(model), "new idempotency_key") {
		t.Errorf("the model's key: %s", text(model))
	}
	if r := s.call(session, "refund", `{"order":"A","cents":100,"idempotency_key":"m"}`, ""); status(r) != "key_reused" {
		t.Errorf("corrected under the same key: %v", status(r))
	}
	if r := s.call(session, "refund", `{"order":"A","cents":101}`, "h"); !strings.Contains(text(r), "set outside of your arguments") {
		t.Errorf("the harness's key: %s", text(r))
	}
	if r := s.call(session, "refund", `{"order":"A","cents":101}`, ""); strings.Contains(text(r), "key") {
		t.Errorf("no key: %s", text(r))
	}
}

func TestCall_R15_UnknownWithoutProtectionIsNotToBeRepeated(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	var end error
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "off"}, &mcpidem.ToolConfig{Policy: &txidem.Policy{Disabled: true}},
		func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, end })
	session := s.connect(nil)
	end = &txidem.OutcomeUnknownError{Err: errors.New("cut")} // as the store says it
	wantRefusal(t, s.call(session, "off", dear, "k"), "outcome_unknown", false, "Do not repeat it and do not try another way: it might be done twice.")
	end = txidem.Fail("closed", "the order is closed")
	if r := s.call(session, "off", dear, "k"); strings.Contains(text(r), "recorded") {
		t.Errorf("a failure: %s", text(r))
	}
}

func TestAddTool_K02_QuotedNothingIsNoKey(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeFromToken, nil)
	session := b.headed(`""`)
	if r := b.call(session, `{"order":"A","cents":1,"idempotency_key":"model"}`, ""); status(r) != "bad_key" {
		t.Errorf("got %v %v %s", status(r), r.Meta, text(r))
	}
}

func (b *bench) headed(values ...string) *mcp.ClientSession {
	b.t.Helper()
	transport := &http.Transport{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "alice", Version: "1"}, nil).Connect(b.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: b.serveHTTP(true), HTTPClient: &http.Client{Transport: bearer{"alice", headerTransport{values, transport}}},
	}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { session.Close(); transport.CloseIdleConnections() })
	return session
}

func TestAddToolRaw_R11_HandlerThatWritesIntoTheRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, mcpidem.ScopeIs("agent"), nil)
	var got []string
	mcpidem.AddToolRaw(b.idem, &mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil, func(_ context.Context, _ pgx.Tx, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		got = append(got, string(req.Params.Arguments)+req.Params.Meta[mcpidem.MetaKey].(string))
		req.Params.Arguments[2], req.Params.Meta[mcpidem.MetaKey] = 'x', "y"
		if len(got) == 1 {
			return nil, &pgconn.PgError{Code: "40001"}
		}
		return &mcp.CallToolResult{}, nil
	})
	b.callTool(b.connect(), "raw", `{"a":1}`, "k")
	if len(got) != 2 || got[0] != got[1] {
		t.Errorf("got %q", got)
	}
}

func TestAddToolRaw_M05_ForwardedMarksAreNotOurs(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "label", InputSchema: rawInput}, nil, func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Meta: mcp.Meta{mcpidem.MetaReplayed: true, mcpidem.MetaCallID: "upstream"}}, nil
	})
	if r := s.call(s.connect(nil), "label", `{"order":"A"}`, "k"); replayed(r) || r.Meta[mcpidem.MetaCallID] == "upstream" {
		t.Errorf("got %v", r.Meta)
	}
}

func TestCall_M06_TypedNilProtocolErrorDoesNotEndTheServer(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret})
	var none *jsonrpc.Error
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "refund"}, func(context.Context, pgx.Tx, refund) (receipt, error) { return receipt{}, none })
	mcpidem.AddReadTool(s.idem, &mcp.Tool{Name: "read"}, func(context.Context, *mcp.CallToolRequest, refund) (*mcp.CallToolResult, receipt, error) {
		return nil, receipt{}, none
	})
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "asks"}, &mcpidem.ToolConfig{Confirm: func(context.Context, json.RawMessage) (string, error) { return "", none }}, guarded)
	session := s.connect(nil)
	for _, tool := range []string{"refund", "asks"} {
		wantRefusal(t, s.call(session, tool, dear, "k"), "tool_fault", false, "Nothing was changed")
	}
	if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read", Arguments: json.RawMessage(dear)}); err != nil || !r.IsError {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestAddTool_M03_AnswerThatNoClientCanReadIsNotCommitted(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	var depth int
	deep := func() any {
		return json.RawMessage(`{"x\"":"[{","a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`)
	}
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "typed"}, func(context.Context, pgx.Tx, refund) (any, error) { return deep(), nil })
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil,
		func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: deep()}, nil
		})
	session := s.connect(nil)
	for _, tool := range []string{"typed", "raw"} {
		depth = 900
		if r := s.call(session, tool, dear, "deep"); r.IsError {
			t.Errorf("%s, 900 deep: %s", tool, text(r))
		}
		depth = 901
		wantRefusal(t, s.call(session, tool, dear, "deeper"), "tool_fault", false, "Nothing was changed")
	}
}

func TestAddTool_K02_KeyThatTheSchemaRequiresIsReserved(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	tool := &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","required":["idempotency_key"]}`)}
	if got := panics(t, func() { mcpidem.AddToolRaw(s.idem, tool, nil, nothing) }); !strings.Contains(got, "the argument idempotency_key is reserved") {
		t.Errorf("got %q", got)
	}
	mcpidem.AddToolRaw(s.idem, tool, &mcpidem.ToolConfig{Key: mcpidem.KeyOff}, nothing)
}

func nothing(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{}, nil
}

func TestConfirm_M08_FullFormThatAsksTooIsAFault(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret}, modern)
	confirm := "Sure?"
	var asked []string
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "label", InputSchema: rawInput}, &mcpidem.ToolConfig{Confirm: func(context.Context, json.RawMessage) (string, error) { return confirm, nil }},
		func(_ context.Context, _ pgx.Tx, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if _, ok := req.Params.InputResponses["size"]; ok {
				return &mcp.CallToolResult{}, nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"size": &mcp.ElicitParams{
				Mode: "form", Message: "Which size?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
			}}}, nil
		})
	session := s.connect(&mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = append(asked, req.Params.Message)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}})
	wantRefusal(t, s.call(session, "label", `{"order":"A"}`, "k"), "tool_fault", false, "Nothing was changed")
	if len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
	confirm = "" // a call that needs no confirmation may ask
	if r := s.call(session, "label", `{"order":"B"}`, "k2"); r.IsError || len(asked) != 2 {
		t.Errorf("got %s; asked %q", text(r), asked)
	}
}
