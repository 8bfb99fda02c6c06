package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
)

// keysOf runs a call with messages of these effects, forgets it, and returns the keys of its messages.
func keysOf(t *testing.T, box *outbox.Outbox, store *txidem.Store, req txidem.Request, effects ...string) (keys []string) {
	t.Helper()
	var ids []toolcall.ID
	res, err := txidem.Run(t.Context(), store, req, func(ctx context.Context, tx pgx.Tx) (string, error) {
		for _, effect := range effects {
			id, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", Effect: effect})
			if err != nil {
				return "", err
			}
			ids = append(ids, id)
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		keys = append(keys, fate(t, box, id).Key)
	}
	if _, err := store.Forget(t.Context(), req.Scope, res.ID); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestKey_O01_DerivedFromTheCall: "two effects of one call to one gateway need distinct keys", and the same call has the same ones,
// if its own key is one that names an intent. A hash of arguments names an intent for minutes, a receiver may remember for days.
func TestKey_O01_DerivedFromTheCall(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	for label, c := range map[string]struct {
		key  string
		same bool
	}{"a key of the caller's": {"1", true}, "a hash of the arguments": {"", false}} {
		first := keysOf(t, box, store, request(c.key), "charge", "mail", "", "")
		again := keysOf(t, box, store, request(c.key), "charge", "mail", "", "")
		seen := map[string]bool{}
		for i := range first {
			if (first[i] == again[i]) != c.same {
				t.Errorf("%s: message %d has the keys %s and %s", label, i, first[i], again[i])
			}
			seen[first[i]] = true
		}
		if len(seen) != len(first) {
			t.Errorf("%s: two of its messages share a key: %v", label, first)
		}
	}
	if a, b := keysOf(t, box, store, request("1"), "charge"), keysOf(t, box, store, request("2"), "charge"); a[0] == b[0] {
		t.Errorf("two calls share the key %s", a[0])
	}
}

// TestKey_O01_IsTheCallsDownstreamKey: whoever asks the provider by key, as RunLeased's ask does, asks for the right one.
func TestKey_O01_IsTheCallsDownstreamKey(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	store := newStore(t, pool, nil)
	for label, run := range ways(box) {
		var want string
		var id toolcall.ID
		err := run(t.Context(), pool, store, label, func(publish func(outbox.Message) (toolcall.ID, error)) (err error) {
			id, err = publish(outbox.Message{Destination: "mail", Effect: "charge"})
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		call := &toolcall.Call{ID: toolcall.NewID("alice", "refund", "x:"+label)}
		if want = call.DownstreamKey("charge"); label != "RunLeased" && fate(t, box, id).Key != want { // which adds its epoch
			t.Errorf("%s: the key is %s, the call's %s", label, fate(t, box, id).Key, want)
		}
	}
}

// TestKey_O01_OutsideACall: messages have keys of their own, or those that they are given.
func TestKey_O01_OutsideACall(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail())
	ids := publish(t, pool, box,
		outbox.Message{Destination: "mail", Effect: "charge"}, outbox.Message{Destination: "mail", Effect: "charge"}, outbox.Message{Destination: "mail", Key: "mine"})
	if a, b := fate(t, box, ids[0]).Key, fate(t, box, ids[1]).Key; a == b || a == "" {
		t.Errorf("two messages have the keys %q and %q", a, b)
	}
	if key := fate(t, box, ids[2]).Key; key != "mine" {
		t.Errorf("the key is %q", key)
	}
}

// TestKey_O01_SameEffectIsRefused: within one run of a handler; the next run may name it again.
func TestKey_O01_SameEffectIsRefused(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, mail(), outbox.Destination{Name: "sms"})
	store := newStore(t, pool, nil)
	charge := outbox.Message{Destination: "mail", Effect: "charge"}
	elsewhere := outbox.Message{Destination: "sms", Effect: "charge"}
	for label, second := range map[string]outbox.Message{"at once": charge, "at another destination": elsewhere} {
		_, err := txidem.Run(t.Context(), store, request(label), sends(box, charge, second))
		if !errors.Is(err, outbox.ErrSameEffect) {
			t.Errorf("%s: %v", label, err)
		}
		if _, err := txidem.Run(t.Context(), store, request(label), sends(box, charge)); err != nil {
			t.Errorf("%s: the call cannot be made again: %v", label, err)
		}
	}
	// A number does not take the name that somebody chose.
	_, err := txidem.Run(t.Context(), store, request("numbers"),
		sends(box, outbox.Message{Destination: "mail", Effect: "mail/1"}, outbox.Message{Destination: "mail"}, outbox.Message{Destination: "sms"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := get[string](t, pool, `select string_agg(effect, ' ' order by seq) from txonce.message where call = $1::text::uuid`, toolcall.NewID("alice", "refund", "x:numbers").String()); got != "mail/1 mail/2 sms/1" {
		t.Errorf("the effects are %s", got)
	}
}
