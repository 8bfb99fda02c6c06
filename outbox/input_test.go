package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/txidem"
)

// TestMessage_O01_IsRefusedBeforeAnythingIsSent: the field is named, and the call fails.
func TestMessage_O01_IsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, &outbox.Config{MaxBody: 10}, mail())
	store := newStore(t, pool, nil)
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("h%d", i)] = ""
	}
	header := func(name, value string) outbox.Message {
		return outbox.Message{Headers: map[string]string{name: value}}
	}
	long := strings.Repeat("a", 256)
	for label, m := range map[string]outbox.Message{
		"Effect of 256 bytes":           {Effect: long},
		"Effect with NUL":               {Effect: "a\x00"},
		"Effect of bad UTF-8":           {Effect: "a\xff"},
		"Key of 256 bytes":              {Key: long},
		"Key with a space":              {Key: "a b"},
		"Key with CR LF":                {Key: "a\r\nb"},
		"Key beyond ASCII":              {Key: "ä"},
		"OrderingKey of 256 bytes":      {OrderingKey: long},
		"OrderingKey with NUL":          {OrderingKey: "\x00"},
		"OrderingKey of bad UTF-8":      {OrderingKey: "\xc3"},
		"Address of 2,049 bytes":        {Address: strings.Repeat("a", 2049)},
		"Address with CR LF":            {Address: "https://a/\r\nHost: b"},
		"Type of 256 bytes":             {Type: long},
		"Type with LF":                  {Type: "a\nb"},
		"Body of 11 bytes":              {Body: make([]byte, 11)},
		"Headers of 65 entries":         {Headers: many},
		"Headers with CR LF in a value": header("A", "b\r\nC: d"),
		"Headers with NUL in a value":   header("A", "\x00"),
		"Headers with a tab":            header("A", "\t"),
		"Headers beyond ASCII":          header("A", "ä"),
		"Headers of 4,097 bytes":        header("A", strings.Repeat("a", 4097)),
		"Headers without a name":        header("", "a"),
		"Headers with a name of a:b":    header("a:b", "a"),
		"Headers with LF in a name":     header("a\nb", "a"),
		"Headers with a name of 65":     header(long[:65], "a"),
		"Headers with a name twice":     {Headers: map[string]string{"a-b": "1", "A-B": "2"}},
		"Delay below 0":                 {Delay: -1},
		"Delay of 367 days":             {Delay: 367 * 24 * time.Hour},
		"Within below 0":                {Within: -time.Second},
		"Within of 999 ms":              {Within: 999 * time.Millisecond},
		"Within of 367 days":            {Within: 367 * 24 * time.Hour},
		"Within of no more than Delay":  {Delay: time.Minute, Within: time.Minute},
	} {
		m.Destination = "mail"
		_, err := txidem.Run(t.Context(), store, request(label), sends(box, m))
		if field, _, _ := strings.Cut(label, " "); !errors.Is(err, outbox.ErrMessage) || !strings.Contains(err.Error(), "Message."+field) {
			t.Errorf("%s: %v", label, err)
		}
	}
	if n := messages(t, pool); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}

// TestMessage_O01_UpToTheLimits: what is allowed arrives byte for byte.
func TestMessage_O01_UpToTheLimits(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, &outbox.Config{MaxBody: 16 << 20}, outbox.Destination{Name: "mail", Publisher: r})
	relay(t, box)
	long := strings.Repeat("~", 255)
	body := make([]byte, 1<<20)
	for i := range body {
		body[i] = byte(i)
	}
	most := outbox.Message{
		Destination: "mail", Effect: long, Key: long, OrderingKey: strings.Repeat("ä", 127), Address: strings.Repeat("a", 2048), Type: long,
		Headers: map[string]string{strings.Repeat("a", 64): strings.Repeat(" ~", 2048), "b_c-9": ""}, Body: body, Within: 366 * 24 * time.Hour,
	}
	publish(t, pool, box, most)
	r.wait(t, 1)
	d := r.all()[0]
	if d.Key != most.Key || d.OrderingKey != most.OrderingKey || d.Address != most.Address || d.Type != most.Type || string(d.Body) != string(body) ||
		len(d.Headers) != 2 || d.Headers["b_c-9"] != "" || d.Headers[strings.Repeat("a", 64)] != strings.Repeat(" ~", 2048) || d.PublishedAt.IsZero() {
		t.Errorf("it arrived as %+v", d.Headers)
	}
}

// choosy is a publisher that looks at messages before they are published.
type choosy struct{ outbox.Publisher }

func (choosy) Check(m outbox.Message) error {
	if m.Address == "" {
		return errOops
	}
	return nil
}

// TestMessage_O01_CheckerRefusesBeforeTheCommit, and so does a destination that nobody knows.
func TestMessage_O01_CheckerRefusesBeforeTheCommit(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: choosy{newReceiver(nil)}})
	store := newStore(t, pool, nil)
	for i, c := range []struct {
		m    outbox.Message
		want error
	}{
		{outbox.Message{Destination: "hook"}, errOops},
		{outbox.Message{Destination: "hook"}, outbox.ErrMessage},
		{outbox.Message{Destination: "Hook", Address: "a"}, outbox.ErrUnknownDestination},
		{outbox.Message{}, outbox.ErrUnknownDestination},
		{outbox.Message{Destination: "hook", Address: "a"}, nil},
	} {
		if _, err := txidem.Run(t.Context(), store, request(fmt.Sprint(i)), sends(box, c.m)); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", i, err, c.want)
		}
	}
	if n := messages(t, pool); n != 1 {
		t.Errorf("%d messages, want the last one", n)
	}
}

// TestNew_O04_BadConfigsAreNamed: the error says which field of which destination.
func TestNew_O04_BadConfigsAreNamed(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	fine := outbox.Destination{Name: "mail"}
	for field, cfg := range map[string]*outbox.Config{
		"Schema": {Schema: "a b"}, "MaxBody": {MaxBody: 16<<20 + 1}, "Poll": {Poll: time.Millisecond}, "Sweep": {Sweep: time.Millisecond},
	} {
		if _, err := outbox.New(pool, cfg, fine); err == nil || !strings.Contains(err.Error(), "Config."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for label, d := range map[string]outbox.Destination{
		"Name of 64": {Name: strings.Repeat("a", 64)}, "Name of none": {}, "Name with a space": {Name: "a b"},
		"Timeout of 99 ms": {Timeout: 99 * time.Millisecond}, "Timeout of an hour": {Timeout: time.Hour},
		"Retry of 101 waits": {Retry: make(outbox.Schedule, 101)}, "Retry below 0": {Retry: outbox.Schedule{-1}}, "Retry of 367 days": {Retry: outbox.Schedule{367 * 24 * time.Hour}},
		"Concurrency below 0": {Concurrency: -1}, "Concurrency of 1,001": {Concurrency: 1001},
		"Rate below 0": {Rate: -1}, "Rate of NaN": {Rate: math.NaN()}, "Rate of 10,001": {Rate: 10_001}, "Rate without end": {Rate: math.Inf(1)},
		"KeyLifetime below 0": {KeyLifetime: -1}, "KeyLifetime of no more than Timeout": {KeyLifetime: 15 * time.Second},
		"OnDead of 2": {OnDead: 2}, "Keep of a second": {Keep: time.Second}, "KeepDead of a second": {KeepDead: time.Second},
	} {
		field, _, _ := strings.Cut(label, " ")
		if field != "Name" {
			d.Name = "mail"
		}
		if _, err := outbox.New(pool, nil, d); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", label, err)
		}
	}
	if _, err := outbox.New(pool, nil, fine, fine); err == nil {
		t.Error("two destinations have one name")
	}
	if _, err := outbox.New(nil, nil, fine); err == nil {
		t.Error("it needs no pool")
	}
	if _, err := outbox.New(pool, nil); err == nil {
		t.Error("it needs no destination")
	}
	if err := newBox(t, pool, nil, fine).Run(context.Background()); err == nil {
		t.Error("there is nothing to relay, and nobody is told")
	}
}
