package statustool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
)

// letters is a source of messages that says what it is told to.
type letters struct {
	mu   sync.Mutex
	of   map[toolcall.Ask][]toolcall.MessageStatus
	asks [][]toolcall.Ask
	does func(ctx context.Context, n int) ([][]toolcall.MessageStatus, error) // in its place, if there is one
}

func newLetters() *letters { return &letters{of: make(map[toolcall.Ask][]toolcall.MessageStatus)} }

func (l *letters) Messages(ctx context.Context, asks []toolcall.Ask) ([][]toolcall.MessageStatus, error) {
	l.mu.Lock()
	l.asks = append(l.asks, slices.Clone(asks))
	does := l.does
	l.mu.Unlock()
	if does != nil {
		return does(ctx, len(asks))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make([][]toolcall.MessageStatus, len(asks))
	for i, ask := range asks {
		found[i] = l.of[ask]
	}
	return found, ctx.Err()
}

func (l *letters) set(who string, id toolcall.ID, messages ...toolcall.MessageStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[toolcall.Ask{Scope: who, ID: id}] = messages
}

func (l *letters) asked() [][]toolcall.Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asks)
}

// letter is a message in some state.
func letter(n byte, state toolcall.MessageState) toolcall.MessageStatus {
	m := toolcall.MessageStatus{ID: jobID(100 + n), Destination: "webhooks", Effect: fmt.Sprintf("webhooks/%d", n), State: state, Attempts: 1}
	switch state {
	case toolcall.MessagePending:
		m.Status, m.NextAttemptAt = 503, noon.Add(2*time.Minute)
	case toolcall.MessageDelivering:
	case toolcall.MessageDelivered:
		m.Status, m.ProviderID, m.EndedAt = 200, "re_1", noon.Add(2*time.Minute)
	case toolcall.MessageFailed:
		m.Status, m.EndedAt = 410, noon.Add(2*time.Minute)
	default:
		m.EndedAt = noon.Add(2 * time.Minute)
	}
	return m
}

// mail is what a call or a job that has ended may have sent.
type mail struct {
	label  string
	status toolcall.Status
	sent   sent
}

func mails() []mail {
	of := func(states ...toolcall.MessageState) (f sent) {
		for i, state := range states {
			f.messages = append(f.messages, letter(byte(i+1), state))
		}
		return f
	}
	done, worked, expired := call(toolcall.StateSucceeded), job(toolcall.StateSucceeded), call(toolcall.StateExpired)
	submitted := done
	submitted.Tool, submitted.Answer = "request_report", []byte(`{"job_id":"`+jobID(1).String()+`","kind":"build_report","state":"queued","next":"Ask for the status."}`)
	away := sent{err: errDown}
	return []mail{
		{"a call that sent nothing", done, of()},
		{"a call whose message waits", done, of(toolcall.MessagePending)},
		{"a call whose message is being delivered", done, of(toolcall.MessageDelivering)},
		{"a call whose messages were delivered", done, of(toolcall.MessageDelivered, toolcall.MessageDelivered)},
		{"a call whose message failed", done, of(toolcall.MessageFailed)},
		{"a call whose message may have been delivered", done, of(toolcall.MessageUnknown)},
		{"a call whose message was cancelled", done, of(toolcall.MessageCancelled)},
		{"a call whose message came too late", done, of(toolcall.MessageExpired)},
		{"a call with messages of all sorts", done, of(messageStates[:]...)},
		{"a call with very many messages", done, of(slices.Repeat([]toolcall.MessageState{toolcall.MessageDelivered}, mostMessages+5)...)},
		{"a call that submitted a job and sent a message", submitted, of(toolcall.MessagePending)},
		{"a call of whose messages nothing can be found out", done, away},
		{"a job whose message waits", worked, of(toolcall.MessagePending)},
		{"a job whose message failed", worked, of(toolcall.MessageFailed, toolcall.MessageDelivered)},
		{"a job of whose messages nothing can be found out", worked, away},
		{"a call that has expired, whose message failed", expired, of(toolcall.MessageFailed)},
		{"a call that has expired, whose message waits", expired, of(toolcall.MessagePending)},
	}
}

func (m mail) report() *Report {
	r := reportOf(m.status)
	if m.status.State == toolcall.StateSucceeded {
		r.Result = m.status.Answer
	}
	wordsOfTool("get_status", defaultWait).write(r, m.status, noon)
	r.add(m.sent, m.status)
	return r
}

// TestTexts_S07_NothingIsRepeatedForAMessage: whatever became of messages, no answer says to make a call again.
func TestTexts_S07_NothingIsRepeatedForAMessage(t *testing.T) {
	t.Parallel()
	for _, m := range mails() {
		n := m.sent.count()
		says := m.sent.words(m.status)
		if alarm := strings.Contains(says, "tell the people who run this tool"); alarm != (n.lost+n.unknown > 0) {
			t.Errorf("%s: people are to be told: %v, in %q", m.label, alarm, says)
		}
		if goesOn := strings.Contains(says, "goes by itself"); goesOn != (n.underWay > 0) {
			t.Errorf("%s: it goes by itself: %v, in %q", m.label, goesOn, says)
		}
		for _, act := range []string{"repeat the call", "submit the job again"} {
			if all, not := strings.Count(says, act), strings.Count(says, "o not "+act)+strings.Count(says, "no reason to "+act); all != not {
				t.Errorf("%s: %q says to %s", m.label, says, act)
			}
		}
		if r := m.report(); len(r.Messages) != min(len(m.sent.messages), mostMessages) || r.MessagesUnavailable != (m.sent.err != nil) {
			t.Errorf("%s: %d messages, unavailable: %v", m.label, len(r.Messages), r.MessagesUnavailable)
		}
		if (says == "") != (len(m.sent.messages) == 0 && m.sent.err == nil) {
			t.Errorf("%s: it says %q", m.label, says)
		}
	}
}

// TestGet_S07_TellsOfMessages, by the tool, its variant and over HTTP, and asks about what has ended with an effect only.
func TestGet_S07_TellsOfMessages(t *testing.T) {
	t.Parallel()
	f, l := newFake(), newLetters()
	session := newShop(t, nil).add(&Config{PerTool: true, Outbox: l}, f).connect(nil)
	h, err := Handler(&HandlerConfig{Scope: func(*http.Request) (string, error) { return scope, nil }, Outbox: l}, f)
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(id string) Report{
		"get_status": func(id string) Report { return reportIn(t, do(t, session, "get_status", args{"id": id})) },
		"the variant": func(id string) Report {
			return reportIn(t, do(t, session, "get_issue_refund_status", args{"id": id}))
		},
		"HTTP": func(id string) Report { _, got := get(h, http.MethodGet, scope, "/"+id); return got },
	}
	for _, c := range cases() {
		f.change(func() { clear(f.is) })
		if c.status.State != toolcall.StateNone {
			f.set(scope, c.status)
		}
		mine := letter(1, toolcall.MessagePending)
		l.set(scope, c.status.ID, mine)
		l.set("bob", c.status.ID, letter(2, toolcall.MessageFailed))
		var want []Message
		if c.status.State == toolcall.StateSucceeded || c.status.State == toolcall.StateExpired {
			want = sent{messages: []toolcall.MessageStatus{mine}}.list()
		}
		for way, ask := range ways {
			before := len(l.asked())
			got := ask(c.status.ID.String())
			if got.State == StateBadArgs { // the variant is for another tool
				continue
			}
			if diff := cmp.Diff(want, got.Messages); diff != "" || got.MessagesUnavailable {
				t.Errorf("%s, %s: unavailable %v (-want +got):\n%s", c.label, way, got.MessagesUnavailable, diff)
			}
			if asked := len(l.asked()) - before; asked != len(want) {
				t.Errorf("%s, %s: asked for messages %d times", c.label, way, asked)
			}
			if tells := strings.Contains(got.Next, " sends: 1 on the way."); tells != (want != nil) {
				t.Errorf("%s, %s: %s", c.label, way, got.Next)
			}
		}
	}
}

// TestGet_S07_CancelTellsToo: a job that had ended before it could be cancelled has sent its messages.
func TestGet_S07_CancelTellsToo(t *testing.T) {
	t.Parallel()
	f, l := newFake(), newLetters()
	f.set(scope, job(toolcall.StateSucceeded))
	l.set(scope, jobID(1), letter(1, toolcall.MessageDelivered))
	session := newShop(t, nil).add(&Config{Canceller: &canceller{does: func(toolcall.Ask) (toolcall.Status, error) { return toolcall.Status{}, errDown }}, Outbox: l}, f).connect(nil)
	got := reportIn(t, do(t, session, "cancel_job", args{"id": jobID(1).String()}))
	if len(got.Messages) != 1 || !strings.HasPrefix(got.Next, "The job had ended") || !strings.HasSuffix(got.Next, "Messages that the job sends: 1 delivered.") {
		t.Errorf("%+v", got)
	}
}

// TestGet_S07_SourceThatFails fails no status, and what it says is not shown.
func TestGet_S07_SourceThatFails(t *testing.T) {
	t.Parallel()
	for label, does := range map[string]func(context.Context, int) ([][]toolcall.MessageStatus, error){
		"an error": func(context.Context, int) ([][]toolcall.MessageStatus, error) { return nil, errDown },
		"a panic":  func(context.Context, int) ([][]toolcall.MessageStatus, error) { panic("secret") },
		"too few":  func(context.Context, int) ([][]toolcall.MessageStatus, error) { return nil, nil },
		"too late": func(ctx context.Context, _ int) ([][]toolcall.MessageStatus, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"too late, and deaf": func(context.Context, int) ([][]toolcall.MessageStatus, error) {
			time.Sleep(time.Minute) // of the bubble's time
			return nil, nil
		},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, l := newFake(), newLetters()
				f.set(scope, call(toolcall.StateSucceeded))
				l.does = does
				h, err := Handler(&HandlerConfig{Scope: func(*http.Request) (string, error) { return scope, nil }, Outbox: l}, f)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				w, got := get(h, http.MethodGet, scope, "/"+call(toolcall.StateSucceeded).ID.String())
				if took := time.Since(begun); took > longestMessages {
					t.Errorf("the status waited for %v", took)
				}
				if w.Code != http.StatusOK || got.State != toolcall.StateSucceeded || got.Result == nil || !got.MessagesUnavailable || got.Messages != nil {
					t.Errorf("%d, %s", w.Code, w.Body)
				}
				if strings.Contains(w.Body.String(), "secret") || !strings.Contains(got.Next, "no reason to repeat the call") {
					t.Errorf("%s", w.Body)
				}
				time.Sleep(time.Hour) // of the bubble's: what is deaf ends
			})
		})
	}
}

// TestGet_S07_MessagesAreNotWaitedFor: the wait is for the end of the call.
func TestGet_S07_MessagesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := newFake(), newLetters()
		f.set(scope, job(toolcall.StateSucceeded))
		l.set(scope, jobID(1), letter(1, toolcall.MessagePending))
		h, err := Handler(&HandlerConfig{Scope: func(*http.Request) (string, error) { return scope, nil }, Outbox: l}, f)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, got := get(h, http.MethodGet, scope, "/"+jobID(1).String()+"?wait=25")
		if took := time.Since(begun); took != 0 || got.State != toolcall.StateSucceeded || len(got.Messages) != 1 {
			t.Errorf("%+v after %v", got, took)
		}
	})
}

// TestMailbox_S07_QuestionsTravelTogether, each once, and those of callers that have left stay behind.
func TestMailbox_S07_QuestionsTravelTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLetters()
		open := make(chan struct{})
		l.does = func(ctx context.Context, n int) ([][]toolcall.MessageStatus, error) {
			<-open
			found := make([][]toolcall.MessageStatus, n)
			for i := range found {
				found[i] = []toolcall.MessageStatus{letter(1, toolcall.MessageDelivered)}
			}
			return found, nil
		}
		m := newMailbox(l, slog.New(slog.DiscardHandler))
		var all sync.WaitGroup
		answers := make(chan sent, 1000)
		ask := func(ctx context.Context, n int) {
			all.Go(func() { answers <- m.of(ctx, askFor(n), toolcall.StateSucceeded) })
			synctest.Wait()
		}
		for i := range lanes { // both lanes are busy
			ask(t.Context(), i)
		}
		gone, leave := context.WithCancel(t.Context())
		ask(gone, 99)
		leave()
		synctest.Wait()
		if f := <-answers; !errors.Is(f.err, context.Canceled) {
			t.Errorf("the caller has left: %+v", f)
		}
		for i := range 300 {
			ask(t.Context(), 100+i%50)
		}
		close(open)
		all.Wait()
		close(answers)
		for f := range answers {
			if f.err != nil || len(f.messages) != 1 {
				t.Errorf("%+v", f)
			}
		}
		asked := l.asked()
		if len(asked) != lanes+3 {
			t.Errorf("asked %d times for 300 questions of which %d travel together", len(asked), mostMessageAsks)
		}
		for _, asks := range asked[lanes:] {
			once := make(map[toolcall.Ask]bool)
			for _, ask := range asks {
				once[ask] = true
			}
			if len(asks) != 50 || len(once) != 50 || once[askFor(99)] {
				t.Errorf("asked %v", asks)
			}
		}
	})
}

// TestDefinitions_S07_AreFrozen has what a client lists where there is an outbox.
func TestDefinitions_S07_AreFrozen(t *testing.T) {
	t.Parallel()
	s := newShop(t, nil).add(&Config{PerTool: true, Canceller: &canceller{}, Outbox: newLetters()}, newFake())
	listed, err := s.connect(nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var own []*mcp.Tool
	for _, tool := range listed.Tools {
		if slices.Contains([]string{"get_status", "get_issue_refund_status", "cancel_job"}, tool.Name) {
			own = append(own, tool)
		}
	}
	raw, err := json.MarshalIndent(own, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tools_outbox.golden", string(raw)+"\n")
}

// TestDefinitions_S07_SchemaTakesEachAnswer with messages, and would take no other state of one.
func TestDefinitions_S07_SchemaTakesEachAnswer(t *testing.T) {
	t.Parallel()
	schema, err := outputSchema(resultSchema(newShop(t, nil).idem.Tools(), nil), true).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(r *Report) error {
		raw, err := marshal(r)
		if err != nil {
			return err
		}
		var value any
		return errors.Join(json.Unmarshal(raw, &value), schema.Validate(value))
	}
	for _, m := range mails() {
		if err := valid(m.report()); err != nil {
			t.Errorf("%s: %v", m.label, err)
		}
	}
	odd := mails()[1].report()
	odd.Messages[0].State = "lost"
	if valid(odd) == nil {
		t.Error("the schema takes a state that there is not")
	}
}

// TestTasks_S07_WhatGoesOverTheWire is frozen: the job's own result stays as it is, what became of its messages stands beside it.
func TestTasks_S07_WhatGoesOverTheWire(t *testing.T) {
	t.Parallel()
	f, l := newFake(), newLetters()
	w := newShop(t, nil).add(&Config{Tasks: true, Outbox: l}, f).wire()
	ask := func(label string, s toolcall.Status) {
		f.set(scope, s)
		w.send(label, "tasks/get", taskParam(jobID(1)), declaring)
	}
	l.set(scope, jobID(1), letter(1, toolcall.MessageFailed))
	ask("a job that runs", job(toolcall.StateRunning))
	ask("a job that failed", job(toolcall.StateFailed))
	if asked := l.asked(); len(asked) != 0 {
		t.Errorf("asked for messages of jobs that have sent none: %v", asked)
	}
	for _, m := range mails() {
		if m.status.Job != nil && m.sent.err == nil {
			l.set(scope, jobID(1), m.sent.messages...)
			ask(m.label, m.status)
		}
	}
	l.does = func(context.Context, int) ([][]toolcall.MessageStatus, error) { return nil, errDown }
	ask("a job of whose messages nothing can be found out", job(toolcall.StateSucceeded))
	golden(t, "tasks_outbox.golden", w.log.String())
}
