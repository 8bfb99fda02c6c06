package mcpidem_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// till is a shop whose tool "refund" asks a person from 100 cents on.
type till struct {
	*shop
	runs int
	fail error    // of the handler
	said []string // the questions that were put
	says string   // the person's word
}

func newTill(t *testing.T, versions ...string) *till {
	t.Helper()
	k := &till{shop: newShop(t, &mcpidem.Config{Secret: secret}, versions...), says: "accept"}
	mcpidem.AddToolWith(k.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: mcpidem.ConfirmArgs(expensive)},
		func(context.Context, pgx.Tx, refund) (receipt, error) {
			k.runs++
			return receipt{Refund: fmt.Sprint("R-", k.runs)}, k.fail
		})
	return k
}

func expensive(_ context.Context, in refund) (string, error) {
	switch {
	case in.Cents == 13:
		return "", errors.New("no such order")
	case in.Cents < 100:
		return "", nil
	}
	return fmt.Sprintf("Refund %d cents for %s?", in.Cents, in.Order), nil
}

// person is a client that asks a person.
func (k *till) person() *mcp.ClientSession {
	return k.connect(&mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		k.said = append(k.said, req.Params.Message)
		return &mcp.ElicitResult{Action: k.says}, nil
	}})
}

// byHand is a client that hands its caller what the server asks, and its caller sends what it likes.
func (k *till) byHand() *mcp.ClientSession {
	return k.connect(&mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("not asked")
		},
	})
}

// answer sends a call with a person's word.
func (k *till) answer(session *mcp.ClientSession, args, key, state, action string) *mcp.CallToolResult {
	k.t.Helper()
	params := &mcp.CallToolParams{Name: "refund", Arguments: json.RawMessage(args), RequestState: state}
	if key != "" {
		params.Meta = mcp.Meta{mcpidem.MetaKey: key}
	}
	params.InputResponses = mcp.InputResponseMap{"confirm": &mcp.ElicitResult{Action: action}}
	r, err := session.CallTool(k.t.Context(), params)
	if err != nil {
		k.t.Fatal(err)
	}
	return r
}

const dear = `{"order":"A-1","cents":1050}`

func TestConfirm_M08_PersonIsAskedOnceBeforeTheCall(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			k := newTill(t, version)
			session := k.person()
			if r := k.call(session, "refund", dear, "k"); r.IsError || k.runs != 1 || len(k.said) != 1 || k.said[0] != "Refund 1050 cents for A-1?" {
				t.Fatalf("%s; %d runs; asked %q", text(r), k.runs, k.said)
			}
			k.says = "decline" // a committed call is never asked about again
			if r := k.call(session, "refund", dear, "k"); !replayed(r) || k.runs != 1 || len(k.said) != 1 {
				t.Errorf("repeated: %s; %d runs; asked %q", text(r), k.runs, k.said)
			}
			if r := k.call(session, "refund", `{"order":"A-1","cents":2000}`, "k"); status(r) != "key_reused" || len(k.said) != 1 {
				t.Errorf("other arguments: %v; asked %q", status(r), k.said)
			}
			if r := k.call(session, "refund", `{"order":"A-1","cents":99}`, "cheap"); r.IsError || len(k.said) != 1 {
				t.Errorf("a cheap one: %s; asked %q", text(r), k.said)
			}
		})
	}
}

func TestConfirm_M08_WithoutAYesNothingIsDone(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		for says, want := range map[string]struct{ status, text string }{
			"decline": {"declined", "said no. Nothing was done. Do not repeat this call"},
			"cancel":  {"confirmation_needed", "did not decide. Nothing was done."},
		} {
			k := newTill(t, version)
			k.says = says
			session := k.person()
			if r := k.call(session, "refund", dear, "k"); !r.IsError || status(r) != want.status || !strings.Contains(text(r), want.text) || k.runs != 0 {
				t.Errorf("%s, %s: %v %s; %d runs", version, says, status(r), text(r), k.runs)
			}
			k.says = "accept" // nothing was recorded: the person may think again
			if r := k.call(session, "refund", dear, "k"); r.IsError || k.runs != 1 {
				t.Errorf("%s, then accepted: %s; %d runs", version, text(r), k.runs)
			}
		}
	}
}

func TestConfirm_M08_ClientThatCannotAskIsTold(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		k := newTill(t, version)
		if r := k.call(k.connect(nil), "refund", dear, "k"); status(r) != "confirmation_needed" || !strings.Contains(text(r), "does not support elicitation") || k.runs != 0 {
			t.Errorf("%s: %v %s; %d runs", version, status(r), text(r), k.runs)
		}
		urls := k.connect(&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}})
		if r := k.call(urls, "refund", dear, "k"); status(r) != "confirmation_needed" || k.runs != 0 {
			t.Errorf("%s, a client that opens addresses only: %v; %d runs", version, status(r), k.runs)
		}
	}
}

func TestConfirm_M08_YesIsForThisCallAlone(t *testing.T) {
	t.Parallel()
	k := newTill(t, modern)
	session := k.byHand()
	asked := k.call(session, "refund", dear, "k")
	if !asked.NeedsInput() || asked.RequestState == "" {
		t.Fatalf("not asked: %s", text(asked))
	}
	state := asked.RequestState
	for label, r := range map[string]*mcp.CallToolResult{
		"no state":        k.answer(session, dear, "k", "", "accept"),
		"another one":     k.answer(session, dear, "k", state[:len(state)-2]+"AA", "accept"),
		"not base64":      k.answer(session, dear, "k", "?", "accept"),
		"other arguments": k.answer(session, `{"order":"A-1","cents":1051}`, "k", state, "accept"),
		"another memo":    k.answer(session, `{"order":"A-1","cents":1050,"memo":"x"}`, "k", state, "accept"),
		"another key":     k.answer(session, dear, "k2", state, "accept"),
		"no key":          k.answer(session, dear, "", state, "accept"),
		"a no, forged":    k.answer(session, dear, "k", "", "decline"),
	} {
		if !r.NeedsInput() || k.runs != 0 {
			t.Errorf("%s: %v %s; %d runs; want it to be asked", label, status(r), text(r), k.runs)
		}
	}
	if r := k.answer(session, ` {"cents":1.05e3,"order":"A-1"}`, "k", state, "accept"); r.IsError || r.NeedsInput() || k.runs != 1 {
		t.Fatalf("the same call in another spelling: %s; %d runs", text(r), k.runs)
	}
	if r := k.answer(session, dear, "k", state, "accept"); !replayed(r) || k.runs != 1 {
		t.Errorf("re-sent: %s; %d runs", text(r), k.runs)
	}
}

func TestConfirm_M08_YesIsForThisCallerAndThisToolAlone(t *testing.T) {
	t.Parallel()
	who := "alice"
	s := newShop(t, &mcpidem.Config{Secret: secret, Scope: func(context.Context, *mcp.CallToolRequest) (string, error) { return who, nil }}, modern)
	k := &till{shop: s}
	for _, tool := range []string{"refund", "charge"} {
		mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: tool}, &mcpidem.ToolConfig{Confirm: mcpidem.ConfirmArgs(expensive)},
			func(context.Context, pgx.Tx, refund) (receipt, error) { k.runs++; return receipt{}, nil })
	}
	session := k.byHand()
	state := k.call(session, "charge", dear, "k").RequestState
	if r := k.answer(session, dear, "k", state, "accept"); !r.NeedsInput() || k.runs != 0 {
		t.Errorf("a yes to another tool: %s, %d runs", text(r), k.runs)
	}
	state = k.call(session, "refund", dear, "k").RequestState
	who = "bob"
	if r := k.answer(session, dear, "k", state, "accept"); !r.NeedsInput() || k.runs != 0 {
		t.Errorf("another caller's yes: %s, %d runs", text(r), k.runs)
	}
	who = "alice"
	if r := k.answer(session, dear, "k", state, "accept"); r.IsError || r.NeedsInput() || k.runs != 1 {
		t.Errorf("alice's own: %s, %d runs", text(r), k.runs)
	}
}

func TestConfirm_M08_YesIsToTheQuestionThatWasAsked(t *testing.T) {
	t.Parallel()
	s, runs, files := newShop(t, &mcpidem.Config{Secret: secret}, modern), 0, 3
	asks := func(context.Context, json.RawMessage) (string, error) {
		return fmt.Sprintf("Delete %d files?", files), nil
	}
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: asks},
		func(context.Context, pgx.Tx, refund) (receipt, error) { runs++; return receipt{}, nil })
	k := &till{shop: s}
	session := k.byHand()
	asked := k.call(session, "refund", dear, "k")
	files = 3000
	again := k.answer(session, dear, "k", asked.RequestState, "accept")
	if !again.NeedsInput() || runs != 0 {
		t.Fatalf("a yes to another question: %s; %d runs", text(again), runs)
	}
	if r := k.answer(session, dear, "k", again.RequestState, "accept"); r.IsError || runs != 1 {
		t.Errorf("a yes to this one: %s; %d runs", text(r), runs)
	}
}

func TestConfirm_M08_RawToolsAskToo(t *testing.T) {
	t.Parallel()
	s, runs := newShop(t, &mcpidem.Config{Secret: secret}, modern), 0
	asks := func(context.Context, json.RawMessage) (string, error) { return "Print it?", nil }
	mcpidem.AddToolRaw(s.idem, &mcp.Tool{Name: "refund", InputSchema: rawInput}, &mcpidem.ToolConfig{Confirm: asks},
		func(context.Context, pgx.Tx, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			runs++
			return &mcp.CallToolResult{}, nil
		})
	k := &till{shop: s}
	session := k.byHand()
	asked := k.call(session, "refund", `{"order":"A"}`, "k")
	if !asked.NeedsInput() || runs != 0 {
		t.Errorf("not asked: %s; %d runs", text(asked), runs)
	}
	if r := k.answer(session, `{"order":"A"}`, "k", asked.RequestState, "accept"); r.IsError || runs != 1 {
		t.Errorf("confirmed: %s; %d runs", text(r), runs)
	}
}

func TestConfirm_M08_YesCountsOnceAndNotForLong(t *testing.T) {
	t.Parallel()
	k := newTill(t, modern)
	now := time.Now()
	k.idem.SetNow(func() time.Time { return now })
	session := k.byHand()
	k.fail = errors.New("printer on fire")
	state := k.call(session, "refund", dear, "").RequestState
	if r := k.answer(session, dear, "", state, "accept"); status(r) != "not_done" || k.runs != 1 {
		t.Fatalf("%v; %d runs", status(r), k.runs)
	}
	k.fail = nil
	now = now.Add(5*time.Minute - 2*time.Second) // nothing was done, so the person's word still stands
	if r := k.answer(session, dear, "", state, "accept"); r.IsError || k.runs != 2 {
		t.Fatalf("again: %s; %d runs", text(r), k.runs)
	}
	// As long as the word is good, the record is there; when the record goes, it no longer is.
	now = now.Add(2 * time.Second)
	other := `{"order":"A-2","cents":1050}`
	state = k.call(session, "refund", other, "").RequestState
	now = now.Add(5 * time.Minute)
	if r := k.answer(session, other, "", state, "accept"); !r.NeedsInput() || k.runs != 2 {
		t.Errorf("an old yes: %s; %d runs", text(r), k.runs)
	}
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		t.Fatal(err)
	}
	raw[3]++ // some years later
	if r := k.answer(session, other, "", base64.RawURLEncoding.EncodeToString(raw), "accept"); !r.NeedsInput() || k.runs != 2 {
		t.Errorf("an old yes with another date: %s; %d runs", text(r), k.runs)
	}
}

// TestConfirm_M08_DuplicateOfARunningCallIsAskedToo: a duplicate waits, the running call fails, and the duplicate's turn comes:
// it may have other arguments, which nobody has seen.
func TestConfirm_M08_DuplicateOfARunningCallIsAskedToo(t *testing.T) {
	t.Parallel()
	s := newShop(t, &mcpidem.Config{Secret: secret}, modern)
	there, goOn := make(chan struct{}), make(chan struct{})
	var ran []int64
	mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "refund"}, &mcpidem.ToolConfig{Confirm: mcpidem.ConfirmArgs(expensive)},
		func(_ context.Context, _ pgx.Tx, in refund) (receipt, error) {
			ran = append(ran, in.Cents)
			close(there)
			<-goOn
			return receipt{}, errors.New("printer on fire")
		})
	k := &till{shop: s}
	session, first := s.connect(nil), make(chan struct{})
	go func() {
		defer close(first)
		s.call(session, "refund", `{"order":"A-1","cents":1}`, "k")
	}()
	<-there
	second := make(chan *mcp.CallToolResult)
	go func() { second <- k.call(k.byHand(), "refund", dear, "k") }()
	close(goOn)
	<-first
	if r := <-second; !r.NeedsInput() || len(ran) != 1 {
		t.Errorf("got %v %s; ran for %v", status(r), text(r), ran)
	}
}

func TestConfirm_M08_BadArgumentsAndErrorsAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	k := newTill(t, modern)
	session := k.person()
	for args, want := range map[string]string{
		`{"order":"A-1"}`:                       "bad_args",
		`{"order":"A-1","cents":"1050"}`:        "bad_args",
		`{"order":"A-1","cents":1050,"x":1}`:    "bad_args",
		`{"order":"A","order":"B","cents":999}`: "bad_args",
		`{"order":"A-1","cents":13}`:            "not_done",
	} {
		if r := k.call(session, "refund", args, ""); status(r) != want || k.runs != 0 || k.said != nil {
			t.Errorf("%s: %v %s; %d runs; asked %q", args, status(r), text(r), k.runs, k.said)
		}
	}
}

func TestConfirm_M08_NeedsASecret(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil)
	got := panics(t, func() {
		mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "x"}, &mcpidem.ToolConfig{Confirm: mcpidem.ConfirmArgs(expensive)}, guarded)
	})
	if !strings.Contains(got, "needs Config.Secret: 32 random bytes") {
		t.Errorf("got %q", got)
	}
	store, err := txidem.NewMemory(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mcpidem.New(s.server, store, &mcpidem.Config{Scope: mcpidem.ScopeIs("a"), Secret: []byte("short")}); err == nil || !strings.Contains(err.Error(), "Config.Secret has 5 bytes") {
		t.Errorf("a short secret: %v", err)
	}
}
