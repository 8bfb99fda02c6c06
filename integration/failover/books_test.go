package failover

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// books is what one server has, at one moment.
type books struct {
	records   map[intent]int
	effects   map[intent][]string // the runs that made them
	jobs      map[string]int      // by key, and so on
	ended     map[string]int      // jobs that have succeeded
	worked    map[string]int
	messages  map[string]int
	delivered map[string]int
}

const (
	sqlJobs     = `select '', convert_from(args, 'UTF8')::jsonb->>'key', '' from txonce.job`
	sqlMessages = `select '', convert_from(body, 'UTF8'), '' from txonce.message`
)

// readBooks looks at all tables in one snapshot.
func (w *world) readBooks() *books {
	w.t.Helper()
	b := &books{
		records: map[intent]int{}, effects: map[intent][]string{}, jobs: map[string]int{}, ended: map[string]int{}, worked: map[string]int{},
		messages: map[string]int{}, delivered: map[string]int{},
	}
	add := func(to map[string]int) func(_, key, _ string) { return func(_, key, _ string) { to[key]++ } }
	conn := w.connect(w.standby)
	defer func() { _ = conn.Close(w.t.Context()) }()
	err := pgx.BeginTxFunc(w.t.Context(), conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		for sql, note := range map[string]func(tool, key, run string){
			`select tool, substr(key, 3), '' from txonce.call`: func(tool, key, _ string) { b.records[intent{tool, key}]++ },
			`select tool, key, run from effect`: func(tool, key, run string) {
				b.effects[intent{tool, key}] = append(b.effects[intent{tool, key}], run)
			},
			sqlJobs:                                add(b.jobs),
			sqlJobs + ` where state = 'succeeded'`: add(b.ended),
			`select '', key, run from worked`:      add(b.worked),
			sqlMessages:                            add(b.messages),
			sqlMessages + ` join txonce.message_outcome using (id) where state = 'delivered'`: add(b.delivered),
		} {
			rows, err := tx.Query(w.t.Context(), sql)
			if err != nil {
				return err
			}
			var tool, key, run string
			if _, err := pgx.ForEachRow(rows, []any{&tool, &key, &run}, func() error { note(tool, key, run); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// wholes checks that each call is there as a whole, or not at all.
func (b *books) wholes(t *testing.T) {
	t.Helper()
	calls := make(map[intent]bool)
	for in := range b.records {
		calls[in] = true
	}
	for in := range b.effects {
		calls[in] = true
	}
	for key := range b.jobs {
		calls[intent{toolJob, key}] = true
	}
	for key := range b.messages {
		calls[intent{toolMessage, key}] = true
	}
	for in := range calls {
		records := b.records[in]
		if n := len(b.effects[in]); n != records {
			t.Errorf("%v has %d records and %d effects", in, records, n)
		}
		if n := b.jobs[in.key]; in.tool == toolJob && n != records {
			t.Errorf("%v has %d records and %d jobs", in, records, n)
		}
		if n := b.messages[in.key]; in.tool == toolMessage && n != records {
			t.Errorf("%v has %d records and %d messages", in, records, n)
		}
	}
	if diff := cmp.Diff(b.ended, b.worked); diff != "" {
		t.Errorf("jobs that have succeeded, and their effects (-ends +effects):\n%s", diff)
	}
}

// settled waits until each call that was answered is done: its job has ended, and its message has come.
func (w *world) settled() {
	w.t.Helper()
	eventually(w.t, "jobs end and messages come", func() bool {
		b := w.readBooks()
		return !slices.ContainsFunc(w.heard.all(), func(in intent) bool {
			return in.tool == toolJob && b.ended[in.key] == 0 || in.tool == toolMessage && b.delivered[in.key] == 0
		})
	})
}

// repeat makes each call once more that was answered, and wants the same answer, byte for byte; where the server has lost the call, it
// wants a new one. It returns the calls that were lost.
func (w *world) repeat() (lost []intent) {
	w.t.Helper()
	b := w.readBooks()
	for _, in := range w.heard.all() {
		got, err := w.call(w.t.Context(), in)
		there := b.records[in] == 1
		if err != nil || got.Replayed != there {
			w.t.Errorf("%v, made again: replayed: %v, %v; its record was there: %v", in, got.Replayed, err, there)
		}
		if !there {
			lost = append(lost, in)
			w.heard.heard(in, got.Raw)
		} else if !slices.ContainsFunc(w.heard.answersOf(in), func(answer []byte) bool { return bytes.Equal(answer, got.Raw) }) {
			w.t.Errorf("%v, made again: %s, which nobody has heard before", in, got.Raw)
		}
	}
	return lost
}

// once checks that each call that was answered has had one effect, which is the one that its callers were told of last, and so
// has its job, and that the shop can know its messages by their key.
func (w *world) once() {
	w.t.Helper()
	b := w.readBooks()
	b.wholes(w.t)
	for _, in := range w.heard.all() {
		answers := w.heard.answersOf(in)
		last := decode(w.t, answers[len(answers)-1])
		if diff := cmp.Diff([]string{last.Run}, b.effects[in]); diff != "" {
			w.t.Errorf("%v: the runs whose effects are there (-told +got):\n%s", in, diff)
		}
		if n := b.worked[in.key]; in.tool == toolJob && n != 1 {
			w.t.Errorf("%v: its job has had %d effects", in, n)
		}
		if in.tool != toolMessage {
			continue
		}
		keys := make(map[string]bool)
		for _, d := range w.shop.of(in.key) {
			keys[d.Key] = true
		}
		if len(keys) != 1 {
			w.t.Errorf("%v: the shop got its message under %d keys", in, len(keys))
		}
	}
}
