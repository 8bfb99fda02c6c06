package outboxtest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/outboxtest"
)

// planted are publishers with a fault, and the tests of the suite that find it.
var planted = map[string]struct {
	deliver func(f *farSide) outbox.Func
	check   func(outbox.Message) error
	finds   []string
}{
	"a new key each time": {finds: []string{"O01_EveryAttemptIsTheSame"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			if d.Attempt > 1 {
				d.Key += "again"
			}
			return f.deliver(ctx, d)
		}
	}},
	"the body as text": {finds: []string{"O01_BodiesByteForByte"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			d.Body = []byte(strings.ToValidUTF8(string(d.Body), "?"))
			return f.deliver(ctx, d)
		}
	}},
	"the body cut at 64 KiB": {finds: []string{"O01_BodiesByteForByte"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			d.Body = d.Body[:min(len(d.Body), 64<<10)]
			return f.deliver(ctx, d)
		}
	}},
	"no headers": {finds: []string{"O01_HeadersArrive"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			d.Headers = nil
			return f.deliver(ctx, d)
		}
	}},
	"keys without quotation marks": {finds: []string{"O01_KeysArriveAsTheyAre"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			d.Key = strings.Trim(d.Key, `"`)
			return f.deliver(ctx, d)
		}
	}},
	"the latest first": {finds: []string{"O02_OneByOneIsInOrder"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			out, err := f.deliver(ctx, d)
			if d.OrderingKey != "" {
				slices.Reverse(f.received)
			}
			return out, err
		}
	}},
	"refused is delivered":             {finds: []string{"O04_RefusedIsRetry"}, deliver: says(outboxtest.Refuse, outbox.Outcome{Class: outbox.Delivered})},
	"refused is for good":              {finds: []string{"O04_RefusedIsRetry"}, deliver: says(outboxtest.Refuse, outbox.Outcome{Class: outbox.Rejected})},
	"throttled names no time":          {finds: []string{"O04_ThrottledNamesATime"}, deliver: says(outboxtest.Throttle, outbox.Outcome{Class: outbox.Retry})},
	"rejected is tried again":          {finds: []string{"O05_RejectedForGood"}, deliver: says(outboxtest.Reject, outbox.Outcome{Class: outbox.Retry})},
	"an answer that is lost is undone": {finds: []string{"O03_TakenButNotSaidIsUnanswered"}, deliver: says(outboxtest.Cut, outbox.Outcome{Class: outbox.Retry})},
	"nobody there is delivered":        {finds: []string{"O03_DeadFarSideTakesNothing"}, deliver: says(outboxtest.Dead, outbox.Outcome{Class: outbox.Delivered})},
	"the end of the context is undone": {finds: []string{"O07_ContextsEndIsHeeded"}, deliver: says(outboxtest.Hang, outbox.Outcome{Class: outbox.Retry})},
	"an ended context is sent anyway": {finds: []string{"O07_EndedContext"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			if ctx.Err() == nil {
				return f.deliver(ctx, d)
			}
			out, err := f.deliver(context.WithoutCancel(ctx), d)
			out.Class = outbox.Retry
			return out, err
		}
	}},
	"a body that the next one has too": {finds: []string{"O07_ManyAtATime"}, deliver: func(f *farSide) outbox.Func {
		var last outbox.Delivery
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			if strings.HasPrefix(string(d.Body), "body of ") {
				f.mu.Lock()
				last, d.Body = d, last.Body
				f.mu.Unlock()
			}
			return f.deliver(ctx, d)
		}
	}},
	"it writes into the body": {finds: []string{"O07_DeliveryIsReadOnly"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			out, err := f.deliver(ctx, d)
			_ = append(d.Body, "\n"...)
			return out, err
		}
	}},
	"it adds a header": {finds: []string{"O07_DeliveryIsReadOnly"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			out, err := f.deliver(ctx, d)
			if len(d.Headers) == 1 {
				d.Headers["x-b"] = ""
			}
			return out, err
		}
	}},
	"it panics": {finds: []string{"O07_NothingPanics"}, deliver: func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			_ = d.Key[0]
			return f.deliver(ctx, d)
		}
	}},
	"it delivers what it refuses": {finds: []string{"O07_CheckRefusesWhatIsBad"}, deliver: works, check: func(m outbox.Message) error { return bad(m) }},
	"it refuses nothing":          {finds: []string{"O07_CheckRefusesWhatIsBad"}, deliver: works, check: func(outbox.Message) error { return nil }},
	"it refuses what is good":     {finds: []string{"O07_CheckAsksNobody", "O07_CheckRefusesWhatIsBad"}, deliver: works, check: func(outbox.Message) error { return errors.New("no") }},
	"its check panics":            {finds: []string{"O07_CheckAsksNobody", "O07_CheckRefusesWhatIsBad"}, deliver: works, check: func(outbox.Message) error { panic("no") }},
}

func works(f *farSide) outbox.Func { return f.deliver }

// says makes a publisher that says something wrong of one behaviour.
func says(of outboxtest.Ability, wrong outbox.Outcome) func(*farSide) outbox.Func {
	return func(f *farSide) outbox.Func {
		return func(ctx context.Context, d outbox.Delivery) (outbox.Outcome, error) {
			f.mu.Lock()
			behaves := f.behaves
			f.mu.Unlock()
			out, err := f.deliver(ctx, d)
			if behaves == of {
				return wrong, nil
			}
			return out, err
		}
	}
}

func bad(m outbox.Message) error {
	if m.Type == "bad" {
		return errors.New("bad")
	}
	return nil
}

type checked struct {
	outbox.Func
	check func(outbox.Message) error
}

func (c checked) Check(m outbox.Message) error { return c.check(m) }

const plant = "OUTBOXTEST_PLANT"

// TestRun_O07_FindsWhatIsPlanted runs the suite on each of them, in a process of its own, for it must fail there.
func TestRun_O07_FindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	if name := os.Getenv(plant); name != "" {
		outboxtest.Run(t, func(*testing.T) outboxtest.Harness { return harnessOf(name) })
		return
	}
	for name, p := range planted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRun_O07_FindsWhatIsPlanted$", "-test.timeout", "2m")
			cmd.Env = append(os.Environ(), plant+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the suite passes it:\n%s", out)
			}
			var failed []string
			for line := range strings.Lines(string(out)) {
				if test, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestRun_O07_FindsWhatIsPlanted/"); ok {
					failed = append(failed, strings.Fields(test)[0])
				}
			}
			if slices.Sort(failed); !slices.Equal(failed, p.finds) {
				t.Errorf("found by %v, and not by %v:\n%s", failed, p.finds, out)
			}
		})
	}
}

func harnessOf(name string) outboxtest.Harness {
	p, f := planted[name], &farSide{behaves: outboxtest.Take}
	h := outboxtest.Harness{Publisher: p.deliver(f), Received: f.all, Behave: f.behave}
	if p.check != nil {
		h.Publisher = checked{p.deliver(f), p.check}
		h.Bad = []outbox.Message{{Type: "bad"}}
	}
	return h
}
