package statustool

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// TestAdd_S01_WhatCannotBeIsRefused with an error that names it.
func TestAdd_S01_WhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake()
	for want, c := range map[string]struct {
		cfg     Config
		sources []toolcall.Source
	}{
		"a source is missing":             {Config{}, nil},
		"a source is missing;":            {Config{}, []toolcall.Source{f, nil}},
		"Config.Name":                     {Config{Name: "get status"}, []toolcall.Source{f}},
		"Config.CancelName":               {Config{CancelName: strings.Repeat("x", 129)}, []toolcall.Source{f}},
		"Config.MaxWait is 1ms":           {Config{MaxWait: time.Millisecond}, []toolcall.Source{f}},
		"Config.MaxWait is 1h":            {Config{MaxWait: time.Hour}, []toolcall.Source{f}},
		"Config.Poll is 1ms":              {Config{Poll: time.Millisecond}, []toolcall.Source{f}},
		"Config.Poll is 1h":               {Config{Poll: time.Hour}, []toolcall.Source{f}},
		`the name "issue_refund" is`:      {Config{Name: "issue_refund"}, []toolcall.Source{f}},
		`the name "request_report" is`:    {Config{Canceller: &canceller{}, CancelName: "request_report"}, []toolcall.Source{f}},
		`the name "get_status" is`:        {Config{Canceller: &canceller{}, CancelName: "get_status"}, []toolcall.Source{f}},
		`"get_issue_refund_status", for `: {Config{Name: "get_issue_refund_status", PerTool: true}, []toolcall.Source{f}},
	} {
		if err := Add(newShop(t, nil).idem, &c.cfg, c.sources...); err == nil || !strings.HasPrefix(err.Error(), "statustool: ") || !strings.Contains(err.Error(), strings.TrimSuffix(want, ";")) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Add(nil, nil, f); err == nil || !strings.Contains(err.Error(), "host") {
		t.Error(err)
	}
	s := newShop(t, nil).add(nil, f)
	if err := Add(s.idem, nil, f); err == nil || !strings.Contains(err.Error(), "get_status") {
		t.Errorf("twice: %v", err)
	}
}

// TestAdd_S01_ToolsThatComeLater are in the schema too, and may not take the names that are taken.
func TestAdd_S01_ToolsThatComeLater(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := newShop(t, nil).add(&Config{PerTool: true}, f)
	refund := func(context.Context, pgx.Tx, order) (receipt, error) { return receipt{}, nil }
	mcpidem.AddTool(s.idem, &mcp.Tool{Name: "later"}, refund)
	for _, name := range []string{"get_status", "get_later_status", strings.Repeat("x", 120)} {
		func() {
			defer func() {
				if v := recover(); v == nil {
					t.Errorf("a tool %s was added", name)
				}
			}()
			mcpidem.AddTool(s.idem, &mcp.Tool{Name: name}, refund)
		}()
	}
	list, err := s.connect(nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "get_status" })
	names := list.Tools[at].InputSchema.(map[string]any)["properties"].(map[string]any)["tool"].(map[string]any)["enum"].([]any)
	if !slices.Contains(names, any("later")) || !strings.Contains(list.Tools[at].Description, "later") {
		t.Errorf("%v, %s", names, list.Tools[at].Description)
	}
	if !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "get_later_status" }) {
		t.Error("a tool that came later has no variant")
	}
}

// TestGet_S04_WhatGoesWrongIsAnsweredToo, and what the database said goes to the log only.
func TestGet_S04_WhatGoesWrongIsAnsweredToo(t *testing.T) {
	t.Parallel()
	secret := errors.New("secret")
	for label, c := range map[string]struct {
		who  mcpidem.ScopeFunc
		does func(f *fake)
		want toolcall.State
		says string
	}{
		"the caller is not known":   {func(context.Context, *mcp.CallToolRequest) (string, error) { return "", secret }, nil, StateNoCaller, "cannot tell who is asking"},
		"the caller has no name":    {func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil }, nil, StateNoCaller, "cannot tell who is asking"},
		"the host panics":           {func(context.Context, *mcp.CallToolRequest) (string, error) { panic("secret") }, nil, StateUnavailable, "Wait 5 seconds"},
		"no database":               {nil, func(f *fake) { f.down = true }, StateUnavailable, "Wait 5 seconds"},
		"an answer that is no JSON": {nil, func(f *fake) { f.is[toolcall.Ask{Scope: scope, ID: jobID(1)}] = broken() }, toolcall.StateSucceeded, "cannot be read"},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			if c.does != nil {
				f.change(func() { c.does(f) })
			}
			var log strings.Builder
			s := newShop(t, c.who).add(&Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, f)
			r := do(t, s.connect(nil), "get_status", args{"id": jobID(1).String()})
			if got := reportIn(t, r); got.State != c.want || !strings.Contains(got.Next, c.says) || got.Result != nil || strings.Contains(got.Next, "secret") {
				t.Errorf("%+v", got)
			}
			if log.Len() == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}

func broken() toolcall.Status {
	s := job(toolcall.StateSucceeded)
	s.Answer = []byte("{")
	return s
}

// TestGet_S03_ClientThatGivesUpIsNotWaitedFor: its question ends before the time that it gave.
func TestGet_S03_ClientThatGivesUpIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.set(scope, job(toolcall.StateRunning))
	looked := make(chan struct{}, 100)
	f.gate = func(int) { looked <- struct{}{} }
	session := newShop(t, nil).add(nil, f).connect(nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-looked // the first time
		<-looked // the poller's
		cancel()
	}()
	// The error is the context's, or the server's that it was told so: which of them comes first is open.
	if r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "get_status", Arguments: args{"id": jobID(1).String(), "wait_seconds": 25}}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("%v, %v", r, err)
	}
}
