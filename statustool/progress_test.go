package statustool

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// TestProgress_J05_IsForwardedWhileAQuestionWaits, rising, over each transport.
func TestProgress_J05_IsForwardedWhileAQuestionWaits(t *testing.T) {
	t.Parallel()
	for label, version := range map[string]string{"in memory, legacy": legacy, "in memory": modern, "HTTP": modern, "HTTP, legacy": legacy} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			heard := make(chan *mcp.ProgressNotificationParams, 100)
			opts := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { heard <- req.Params }}
			s := newShop(t, nil, version).add(nil, f)
			connect := s.connect
			if label[:4] == "HTTP" {
				connect = func(opts *mcp.ClientOptions) *mcp.ClientSession { return s.overHTTP(opts) }
			}
			session := connect(opts)
			report := func(fraction float64, message string) {
				now := job(toolcall.StateRunning)
				now.Job.Progress = &toolcall.Progress{Fraction: fraction, Message: message, At: noon.Add(time.Minute)}
				f.set(scope, now)
				f.Notify()
			}
			f.set(scope, job(toolcall.StateQueued))
			answer := make(chan *mcp.CallToolResult, 1)
			go func() {
				params := &mcp.CallToolParams{Name: "get_status", Arguments: args{"id": jobID(1).String(), "wait_seconds": 25}}
				params.SetProgressToken("token")
				r, err := session.CallTool(t.Context(), params)
				if err != nil {
					t.Error(err)
				}
				answer <- r
			}()
			var got []mcp.ProgressNotificationParams
			for _, step := range []toolcall.Progress{{Fraction: 0, Message: "begun"}, {Fraction: 0.5, Message: "half"}, {Fraction: 0.25, Message: "again, by another attempt"}, {Fraction: 1}} {
				report(step.Fraction, step.Message)
				p := *<-heard
				p.Meta = nil
				got = append(got, p)
			}
			f.set(scope, job(toolcall.StateSucceeded))
			f.Notify()
			if r := reportIn(t, <-answer); r.State != toolcall.StateSucceeded {
				t.Errorf("%+v", r)
			}
			want := []mcp.ProgressNotificationParams{
				{ProgressToken: "token", Progress: 0, Total: 1, Message: "begun"},
				{ProgressToken: "token", Progress: 0.5, Total: 1, Message: "half"},
				{ProgressToken: "token", Progress: 0.5 + tiny, Total: 1, Message: "again, by another attempt"},
				{ProgressToken: "token", Progress: 1, Total: 1},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestProgress_J05_NoTokenNoProgress, and none for what is no job.
func TestProgress_J05_NoTokenNoProgress(t *testing.T) {
	t.Parallel()
	if teller(t.Context(), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}, Session: &mcp.ServerSession{}}) != nil {
		t.Error("nobody gave a token")
	}
	heard := make(chan struct{}, 100)
	opts := &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { heard <- struct{}{} }}
	f := newFake()
	for _, c := range cases() {
		if c.status.Job == nil || c.status.Job.Progress == nil {
			f.set(scope, c.status)
		}
	}
	session := newShop(t, nil).add(&Config{MaxWait: time.Second}, f).connect(opts)
	for ask := range slices.Values([]toolcall.ID{jobID(1), callID("issue_refund", "k")}) {
		params := &mcp.CallToolParams{Name: "get_status", Arguments: args{"id": ask.String(), "wait_seconds": 0.1}}
		params.SetProgressToken("token")
		if _, err := session.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	if len(heard) > 0 {
		t.Errorf("heard %d times", len(heard))
	}
}
