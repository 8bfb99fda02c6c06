package httpidem_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/txonce/txonce/internal/faultconn"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/httpidem"
)

func secret(text string) string { return "whsec_" + base64.StdEncoding.EncodeToString([]byte(text)) }

var current, previous = secret("the secret of this month"), secret("the secret of last month")

// sign returns the headers of an event, as the source sends them.
func sign(t testing.TB, secret, id, body string, at time.Time) []string {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := hook.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Webhook-Id", id, "Webhook-Timestamp", fmt.Sprint(at.Unix()), "Webhook-Signature", signature}
}

// hook serves a webhook whose handler writes an effect and then does what handle does.
func (b *bench) hook(cfg *httpidem.WebhookConfig, handle func(context.Context, pgx.Tx, httpidem.Event) error) {
	b.t.Helper()
	verifier, err := httpidem.StandardWebhooks(current, previous)
	if err != nil {
		b.t.Fatal(err)
	}
	if cfg == nil {
		cfg = &httpidem.WebhookConfig{}
	}
	cfg.Source, cfg.Verifier, cfg.Logger = "payments", verifier, slog.New(slog.NewTextHandler(b.log, nil))
	h, err := httpidem.Webhook(b.store, cfg, func(ctx context.Context, tx pgx.Tx, ev httpidem.Event) error {
		if err := refund(ctx, tx, ev.ID); err != nil {
			return err
		}
		return handle(ctx, tx, ev)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.serve(h)
}

// deliver sends an event with a good signature of now.
func (b *bench) deliver(id, body string) answer {
	b.t.Helper()
	return send(b.t, "POST", b.url, body, sign(b.t, current, id, body, time.Now())...)
}

func nothing(context.Context, pgx.Tx, httpidem.Event) error { return nil }

// TestWebhook_H03_OneEffectPerEvent, however often it is delivered, and whatever the sender changes around the id.
func TestWebhook_H03_OneEffectPerEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var got httpidem.Event
	b.hook(nil, func(ctx context.Context, _ pgx.Tx, ev httpidem.Event) error {
		got = ev
		if call, ok := toolcall.FromContext(ctx); !ok || call.Scope != "payments" || call.Tool != httpidem.WebhookTool || call.Key != "x:evt_1" {
			t.Errorf("the call is %+v", call)
		}
		return nil
	})
	b.want("first", b.deliver("evt_1", `{"attempt": 1}`), 200, "", false)
	b.want("again", b.deliver("evt_1", `{"attempt": 2}`), 200, "", true)
	b.want("with the older secret", send(t, "POST", b.url, `{`, sign(t, previous, "evt_1", `{`, time.Now())...), 200, "", true)
	if got.ID != "evt_1" || string(got.Body) != `{"attempt": 1}` || got.Header.Get("Webhook-Id") != "evt_1" {
		t.Errorf("the handler got %+v", got)
	}
	b.wantEffects(1)
	if n := b.count(`select (extract(epoch from expires_at - finished_at) / 86400)::int from txonce.call`); n != 30 {
		t.Errorf("kept for %d days", n)
	}
}

// TestWebhook_H03_BadSignatureLeavesNothing: over the raw bytes, before anything is claimed.
func TestWebhook_H03_BadSignatureLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.hook(nil, nothing)
	const body = `{"cents": 1050}`
	good := sign(t, current, "evt_1", body, time.Now())
	without := func(i int) []string { return append(append([]string{}, good[:i]...), good[i+2:]...) }
	with := func(i int, value string) []string {
		h := append([]string{}, good...)
		h[i] = value
		return h
	}
	for label, c := range map[string]struct {
		body    string
		headers []string
	}{
		"another body":               {`{"cents": 1051}`, good},
		"the same body respaced":     {`{"cents":1050}`, good},
		"another id":                 {body, with(1, "evt_2")},
		"another time":               {body, with(3, fmt.Sprint(time.Now().Unix()-9))},
		"no time":                    {body, with(3, "now")},
		"no signature":               {body, without(4)},
		"no id":                      {body, without(0)},
		"another kind of signature":  {body, with(5, strings.Replace(good[5], "v1,", "v2,", 1))},
		"another secret":             {body, sign(t, secret("of somebody else's"), "evt_1", body, time.Now())},
		"too old":                    {body, sign(t, current, "evt_1", body, time.Now().Add(-6*time.Minute))},
		"too new":                    {body, sign(t, current, "evt_1", body, time.Now().Add(6*time.Minute))},
		"an Idempotency-Key instead": {body, []string{"Idempotency-Key", "evt_1"}},
	} {
		b.want(label, send(t, "POST", b.url, c.body, c.headers...), 401, "bad_signature", false)
	}
	if n := b.effects() + b.records(); n != 0 {
		t.Errorf("%d effects and records", n)
	}
	b.want("the good one", send(t, "POST", b.url, body, good...), 200, "", false)
}

// TestWebhook_H03_HandlerDecides whether the source tries again.
func TestWebhook_H03_HandlerDecides(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	fails := map[string]error{}
	b.hook(nil, func(ctx context.Context, tx pgx.Tx, ev httpidem.Event) error {
		switch ev.ID {
		case "evt_panic":
			if fails[ev.ID] != nil {
				panic("secret")
			}
		case "evt_sql":
			if fails[ev.ID] != nil {
				_, err := tx.Exec(ctx, `select 1/0`)
				return err
			}
		case "evt_commit":
			_, err := tx.Exec(ctx, `commit`)
			return err
		}
		return fails[ev.ID]
	})
	for _, id := range []string{"evt_error", "evt_panic", "evt_sql"} {
		fails[id] = errors.New("secret")
		if a := b.deliver(id, `{}`); a.status != 500 || strings.Contains(a.body, "secret") {
			t.Errorf("%s: %+v", id, a)
		}
		if n := b.effects(); n != 0 {
			t.Errorf("%s: %d effects", id, n)
		}
		delete(fails, id)
		b.want(id, b.deliver(id, `{}`), 200, "", false)
		if _, err := b.pool.Exec(t.Context(), `delete from refund`); err != nil {
			t.Fatal(err)
		}
	}
	fails["evt_bad"] = txidem.Fail("no_such_order", "there is no order A-1")
	b.want("fail", b.deliver("evt_bad", `{}`), 200, "", false)
	b.want("fail", b.deliver("evt_bad", `{}`), 200, "", true)
	b.wantEffects(0)
	if log := b.log.String(); strings.Count(log, "no_such_order") != 2 || !strings.Contains(log, "stack=") {
		t.Errorf("the log has %s", log)
	}
	b.want("commit by SQL", b.deliver("evt_commit", `{}`), 500, "failed", false)
	b.want("commit by SQL", b.deliver("evt_commit", `{}`), 500, "failed", false)
	b.wantEffects(1)
}

// TestWebhook_H03_NoTwoHundredWithoutACommit: whatever becomes of the database, the source tries again.
func TestWebhook_H03_NoTwoHundredWithoutACommit(t *testing.T) {
	t.Parallel()
	wire := &faultconn.Dialer{}
	b := newBench(t, nil, func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = wire.DialFunc })
	b.hook(&httpidem.WebhookConfig{Policy: &txidem.Policy{CommitTimeout: 200 * time.Millisecond}}, func(_ context.Context, tx pgx.Tx, ev httpidem.Event) error {
		if ev.ID == "evt_1" {
			faultconn.Of(tx.Conn().PgConn().Conn()).Arm(faultconn.Fault{Write: faultconn.Executes, Then: faultconn.CutAtAnswer})
			wire.Down(true)
		}
		return nil
	})
	b.want("the commit's answer is lost", b.deliver("evt_1", `{}`), 503, "outcome_unknown", false)
	b.want("no database", b.deliver("evt_2", `{}`), 503, "unavailable", false)
	wire.Down(false)
	b.want("again", b.deliver("evt_1", `{}`), 200, "", true)
	b.want("again", b.deliver("evt_2", `{}`), 200, "", false)
	b.wantEffects(2)
}

func TestWebhook_H03_InProgress(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	b := newBench(t, &txidem.Config{Policy: &txidem.Policy{Wait: txidem.NoWait}})
	b.hook(nil, func(context.Context, pgx.Tx, httpidem.Event) error { close(entered); <-leave; return nil })
	first := make(chan answer)
	go func() { first <- b.deliver("evt_1", `{}`) }()
	<-entered
	second := b.deliver("evt_1", `{}`)
	b.want("second", second, 503, "in_progress", false)
	if second.header.Get("Retry-After") != "1" || second.document()["status"] != 503.0 {
		t.Errorf("%v %s", second.header, second.body)
	}
	close(leave)
	b.want("first", <-first, 200, "", false)
	b.want("second, again", b.deliver("evt_1", `{}`), 200, "", true)
}

func TestWebhook_H03_EdgesOfTheID(t *testing.T) {
	t.Parallel()
	trusting := httpidem.VerifierFunc(func(h http.Header, _ []byte) (string, error) { return h.Get("X-Id"), nil })
	runs := 0
	var log bytes.Buffer
	h, err := httpidem.Webhook(memory(t, nil), &httpidem.WebhookConfig{Source: "s", Verifier: trusting, MaxBody: 9, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(context.Context, pgx.Tx, httpidem.Event) error { runs++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id, body string
		status   int
		problem  string
	}{
		{"", "", 401, "bad_signature"}, // not one event for all that have none
		{strings.Repeat("x", 256), "", 400, "bad_key"},
		{"a\x01", "", 400, "bad_key"},
		{"a", "ten bytes!", 413, "large_body"},
		{"a", "", 200, ""},
	} {
		if a := ask(h, "POST", "/", c.body, "X-Id", c.id); a.status != c.status || a.problem() != c.problem || strings.Contains(a.body, "Idempotency-Key") {
			t.Errorf("%q: %+v", c.id, a)
		}
		if refused := strings.Contains(log.String(), "an event was refused"); refused != (c.status != 200) { // nobody reads what a sender is told
			t.Errorf("%q: the log says %q", c.id, &log)
		}
		log.Reset()
	}
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// TestWebhook_R13_ExpiredEventIsSettled: it was done, and the source wants to hear no more than that.
func TestWebhook_R13_ExpiredEventIsSettled(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store, err := txidem.NewMemory(nil, &txidem.MemoryConfig{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	h, err := httpidem.Webhook(store, &httpidem.WebhookConfig{
		Source: "s", Policy: &txidem.Policy{OnExpired: txidem.Refuse},
		Verifier: httpidem.VerifierFunc(func(http.Header, []byte) (string, error) { return "a", nil }),
	}, func(context.Context, pgx.Tx, httpidem.Event) error { runs++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, days := range []int{0, 31} {
		now = now.AddDate(0, 0, days)
		if a := ask(h, "POST", "/", ""); a.status != 200 || a.replayed() != (days > 0) || runs != 1 {
			t.Errorf("after %d days: %+v, %d runs", days, a, runs)
		}
	}
}

func TestWebhook_ErrorsNameTheField(t *testing.T) {
	t.Parallel()
	store := memory(t, nil)
	verifier := httpidem.VerifierFunc(func(http.Header, []byte) (string, error) { return "", nil })
	for want, c := range map[string]struct {
		store *txidem.Store
		cfg   *httpidem.WebhookConfig
		h     func(context.Context, pgx.Tx, httpidem.Event) error
	}{
		"a store":                  {nil, &httpidem.WebhookConfig{Source: "s", Verifier: verifier}, nothing},
		"WebhookConfig.Verifier":   {store, nil, nothing},
		"WebhookConfig.Source":     {store, &httpidem.WebhookConfig{Verifier: verifier}, nothing},
		"a function":               {store, &httpidem.WebhookConfig{Source: "s", Verifier: verifier}, nil},
		"WebhookConfig.Policy":     {store, &httpidem.WebhookConfig{Source: "s", Verifier: verifier, Policy: &txidem.Policy{Attempts: -1}}, nothing},
		"WebhookConfig.MaxBody is": {store, &httpidem.WebhookConfig{Source: "s", Verifier: verifier, MaxBody: -1}, nothing},
	} {
		if h, err := httpidem.Webhook(c.store, c.cfg, c.h); h != nil || err == nil || !strings.HasPrefix(err.Error(), "httpidem: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, h, err)
		}
	}
}

func TestStandardWebhooks_SecretsThatProtectNothing(t *testing.T) {
	t.Parallel()
	for want, secrets := range map[string][]string{
		"needs a secret":         nil,
		"secret 1 is empty":      {"whsec_"},
		"secret 2 is empty":      {current, ""},
		"secret 3 is empty":      {current, previous, "whsec_\r\n"}, // as of an empty file
		"secret 2 is not base64": {current, "whsec_%%"},
	} {
		if v, err := httpidem.StandardWebhooks(secrets...); v != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%%") {
			t.Errorf("%s: %v, %v", want, v, err)
		}
	}
}
