package mcpidem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// provider is a system elsewhere that knows repeats by their key.
type provider struct {
	charges map[string]int64
	err     error // after the charge
	calls   int
}

func (p *provider) charge(ctx context.Context, in refund) (receipt, error) {
	p.calls++
	call, _ := toolcall.FromContext(ctx)
	key := call.DownstreamKey("charge")
	p.charges[key] = in.Cents
	return receipt{Refund: "R-" + in.Order, Cents: in.Cents}, p.err
}

func (p *provider) find(ctx context.Context, in refund) (receipt, bool, error) {
	call, _ := toolcall.FromContext(ctx)
	cents, ok := p.charges[call.DownstreamKey("charge")]
	return receipt{Refund: "R-" + in.Order, Cents: cents}, ok, nil
}

// leasedBench is a bench on Postgres with a tool "charge"; asks says whether it can ask the provider.
func leasedBench(t *testing.T, asks bool) (*bench, *provider, func(args, key string) *mcp.CallToolResult) {
	b, p := setup(t, mcpidem.ScopeIs("agent"), nil), &provider{charges: map[string]int64{}}
	find := p.find
	if !asks {
		find = nil
	}
	mcpidem.AddLeasedTool(b.idem, &mcp.Tool{Name: "charge"}, nil, p.charge, find)
	s := b.connect()
	return b, p, func(args, key string) *mcp.CallToolResult { return b.callTool(s, "charge", args, key) }
}

const one = `{"order":"A-1","cents":1050}`

func TestAddLeasedTool_R14_AnswersOnceAndReplays(t *testing.T) {
	t.Parallel()
	_, p, call := leasedBench(t, false)
	first, again := call(one, "k"), call(one, "k")
	if first.IsError || !replayed(again) || p.calls != 1 || len(p.charges) != 1 {
		t.Errorf("first %s, again %s; %d calls", text(first), text(again), p.calls)
	}
	if diff := cmp.Diff(first.StructuredContent, again.StructuredContent); diff != "" {
		t.Error(diff)
	}
	for range 2 { // nothing was done, and nothing is blocked
		if r := call(`{"order":"A-1"}`, "bad"); status(r) != "bad_args" {
			t.Errorf("bad arguments: %v %s", status(r), text(r))
		}
	}
	p.err = txidem.Fail("no_funds", "the account is empty")
	for range 2 {
		if r := call(one, "f"); status(r) != "failed" || p.calls != 2 {
			t.Errorf("a failure: %v, %d calls", status(r), p.calls)
		}
	}
	p.err = txidem.NotDone(errors.New("the line is busy"))
	if r := call(one, "n"); status(r) != "not_done" {
		t.Errorf("NotDone: %v %s", status(r), text(r))
	}
	p.err = nil
	if r := call(one, "n"); r.IsError || p.calls != 4 {
		t.Errorf("after NotDone: %s, %d calls", text(r), p.calls)
	}
}

func TestAddLeasedTool_R14_M05_CutOffIsBlockedOrAskedFor(t *testing.T) {
	t.Parallel()
	b, p, call := leasedBench(t, false)
	p.err = fmt.Errorf("connection reset: secret detail: %w", txidem.ErrQuota) // whatever the handler's errors wrap
	for range 2 {
		wantRefusal(t, call(one, "k"), "blocked", false, "it is not known whether it had its effect. It will not be done again by itself.")
	}
	if p.calls != 1 {
		t.Errorf("%d calls", p.calls)
	}
	if log := b.log.String(); !strings.Contains(log, "scope=agent") || !strings.Contains(log, "call=") { // Store.Forget needs both
		t.Errorf("the people who have to find out read:\n%s", log)
	}
	_, p, call = leasedBench(t, true)
	p.err = errors.New("connection reset: secret detail")
	wantRefusal(t, call(one, "k"), "outcome_unknown", true, "Repeat exactly the same call")
	if r := call(one, "k"); r.IsError || p.calls != 1 {
		t.Errorf("the provider was not asked: %v %s, %d calls", status(r), text(r), p.calls)
	}
	if r := call(one, "k"); !replayed(r) {
		t.Errorf("what was found is not recorded: %s", text(r))
	}
}

func TestAddLeasedTool_M03_ResultThatDoesNotFitBlocks(t *testing.T) {
	t.Parallel()
	b, p, _ := leasedBench(t, false)
	mcpidem.AddLeasedTool(b.idem, &mcp.Tool{Name: "misfit", OutputSchema: rawOutput}, nil, p.charge, nil)
	s := b.connect()
	for range 2 {
		if r := b.callTool(s, "misfit", one, "k"); status(r) != "blocked" || p.calls != 1 {
			t.Errorf("got %v %s, %d calls", status(r), text(r), p.calls)
		}
	}
}

// TestAddLeasedTool_M08_NothingIsClaimedBeforeTheYes: a claim would be committed, and a crash behind it would block the call.
func TestAddLeasedTool_M08_NothingIsClaimedBeforeTheYes(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	store, err := txidem.New(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
	if s.idem, err = mcpidem.New(s.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("agent"), Secret: secret}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `create table written (n int);
		create function note() returns trigger language plpgsql as $$ begin insert into written values (1); return new; end $$;
		create trigger note before insert on txonce.call for each row execute function note()`); err != nil {
		t.Fatal(err)
	}
	p := &provider{charges: map[string]int64{}}
	mcpidem.AddLeasedTool(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: mcpidem.ConfirmArgs(expensive)}, p.charge, nil)
	k := &till{shop: s}
	session := k.byHand()
	asked := k.call(session, "refund", one, "k")
	if r := k.answer(session, one, "k", asked.RequestState, "decline"); !asked.NeedsInput() || status(r) != "declined" || p.calls != 0 {
		t.Errorf("asked %s, declined %v, %d calls", text(asked), status(r), p.calls)
	}
	if r := k.call(session, "refund", `{"order":"A-1"}`, "bad"); status(r) != "bad_args" {
		t.Errorf("bad arguments: %v", status(r))
	}
	var rows int
	if err := pool.QueryRow(t.Context(), `select count(*) from written`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d claims were written (%v)", rows, err)
	}
	if r := k.answer(session, one, "k", asked.RequestState, "accept"); r.IsError || p.calls != 1 {
		t.Errorf("confirmed: %v %s, %d calls", status(r), text(r), p.calls)
	}
	if r := k.call(session, "refund", one, "k"); !replayed(r) || p.calls != 1 {
		t.Errorf("repeated: %s, %d calls", text(r), p.calls)
	}
}
