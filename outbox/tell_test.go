package outbox_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// hurry has what is told again told at once, until the test ends.
func hurry(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	execute(t, pool, `create function hurry() returns trigger language plpgsql as $$ begin new.tell_at := case when new.tell_at is not null then now() end; return new; end $$`)
	execute(t, pool, `create trigger hurry before update on txonce.message_outcome for each row execute function hurry()`)
}

// misdeeds are what an OnOutcome may do behind its effect, when it is called for the first time. escapes: the effect has committed.
var misdeeds = map[string]struct {
	do      func(ctx context.Context, tx pgx.Tx) error
	escapes bool
}{
	"an error":  {do: func(context.Context, pgx.Tx) error { return errOops }},
	"a panic":   {do: func(context.Context, pgx.Tx) error { panic("boom") }},
	"Goexit":    {do: func(context.Context, pgx.Tx) error { runtime.Goexit(); return nil }},
	"bad SQL":   {do: func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `select 1/0`); return err }},
	"swallowed": {do: func(ctx context.Context, tx pgx.Tx) error { _, _ = tx.Exec(ctx, `select 1/0`); return nil }},
	"deferred": {do: func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into late values (1)`)
		return err
	}},
	"its end": {do: func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }},
	"killed": {do: func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	}},
	"killed, ok": {do: func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return nil
	}},
	"rollback": {do: func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `rollback`); return err }},
	"commit":   {func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `commit`); return err }, true},
	"commit, and an error": {func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, `commit`)
		return errOops
	}, true},
	"commit, begin": {func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{`commit`, `begin`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}, true},
	"commit and chain": {func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, `commit and chain`); return err }, true},
	"commit, begin, more": {func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{`commit`, `begin`, `insert into effect values ('commit, begin, more')`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}, true},
	"commit, begin and more as one": {func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `commit; begin; insert into effect values ('commit, begin and more as one')`)
		return err
	}, true},
	"rollback, begin, more": {func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{`rollback`, `begin`, `insert into effect values ('rollback, begin, more')`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}, false},
	"rollback, begin and more as one": {func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `rollback; begin; insert into effect values ('rollback, begin and more as one')`)
		return err
	}, false},
	"commit, killed": {func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, `commit`)
		_, _ = tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return nil
	}, true},
}

// TestTell_O11_OneEffect: whatever OnOutcome does, and however many relays there are, what it writes is committed once for each end of
// a message, and the message is not sent again.
func TestTell_O11_OneEffect(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 12 })
	execute(t, pool, `create table effect (message text)`)
	execute(t, pool, `create table early (id int primary key)`)
	execute(t, pool, `create table late (id int references early deferrable initially deferred)`)
	hurry(t, pool)
	r := newReceiver(nil)
	var mu sync.Mutex
	calls := map[string]int{}
	dest := outbox.Destination{Name: "hook", Publisher: r, OnOutcome: func(ctx context.Context, tx pgx.Tx, f outbox.Fate) error {
		mu.Lock()
		calls[f.Type]++
		first := calls[f.Type] == 1
		mu.Unlock()
		if f.State != toolcall.MessageDelivered {
			t.Errorf("told of %+v", f)
		}
		if _, err := tx.Exec(ctx, `insert into effect values ($1::text)`, f.Type); err != nil {
			return err
		}
		if misdeed, ok := misdeeds[f.Type]; ok && first {
			return misdeed.do(ctx, tx)
		}
		return nil
	}}
	cfg := &outbox.Config{Poll: 5 * time.Millisecond}
	box := newBox(t, pool, cfg, dest)
	relay(t, box)
	relay(t, newBox(t, pool, cfg, dest))
	n := 0
	for label := range misdeeds {
		publish(t, pool, box, outbox.Message{Destination: "hook", Type: label})
		n++
	}
	for range 20 {
		publish(t, pool, box, outbox.Message{Destination: "hook", Type: "good"})
	}
	r.wait(t, n+20)
	eventually(t, "all is told", func() bool {
		return get[int](t, pool, `select count(*)::integer from txonce.message_outcome where tell_at is null`) == n+20
	})
	if got := get[int](t, pool, `select count(*)::integer from effect where message = 'good'`); got != 20 {
		t.Errorf("%d effects of 20 messages", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for label, misdeed := range misdeeds {
		want := 2
		if misdeed.escapes {
			want = 1
		}
		if got := get[int](t, pool, `select count(*)::integer from effect where message = $1::text`, label); got != 1 || calls[label] != want {
			t.Errorf("%s: %d effects of %d calls, want one of %d", label, got, calls[label], want)
		}
	}
	if got := len(r.all()); got != n+20 {
		t.Errorf("%d messages were sent %d times", n+20, got)
	}
}

// TestTell_O11_NobodyElseMeanwhile: while one tells of an outcome, no other relay does, and all others are told of by them.
func TestTell_O11_NobodyElseMeanwhile(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 12 })
	came, goOn := make(chan outbox.Fate, 100), make(chan struct{})
	dest := outbox.Destination{Name: "hook", Publisher: newReceiver(nil), OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error {
		came <- f
		if f.Type == "slow" {
			<-goOn
		}
		return nil
	}}
	cfg := &outbox.Config{Poll: 5 * time.Millisecond}
	box := newBox(t, pool, cfg, dest)
	relay(t, box)
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	publish(t, pool, box, outbox.Message{Destination: "hook", Type: "slow"})
	receive(t, "it is told", came)
	relay(t, newBox(t, pool, cfg, dest))
	for range 10 {
		publish(t, pool, box, outbox.Message{Destination: "hook"})
	}
	for range 10 {
		if f := receive(t, "the others are told of", came); f.Type == "slow" {
			t.Error("it is told of twice at a time")
		}
	}
	release()
	eventually(t, "all is told", func() bool {
		return get[int](t, pool, `select count(*)::integer from txonce.message_outcome where tell_at is not null`) == 0
	})
	if len(came) != 0 {
		t.Errorf("%d were told of more than once", len(came))
	}
}

// TestTell_O11_BacksOff: an OnOutcome that always fails is called behind growing pauses, and does not keep others from being told.
func TestTell_O11_BacksOff(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	came := make(chan string, 100)
	log := &logbook{}
	box := newBox(t, pool, &outbox.Config{Poll: 5 * time.Millisecond, Logger: log.logger()}, outbox.Destination{
		Name: "hook", Publisher: newReceiver(nil), OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error {
			came <- f.Type
			if f.Type == "bad" {
				return errOops
			}
			return nil
		},
	})
	execute(t, pool, `create function failed() returns trigger language plpgsql as $$ begin new.tellings := 5; return new; end $$`)
	execute(t, pool, `create trigger failed before insert on txonce.message_outcome for each row execute function failed()`)
	relay(t, box)
	id := publish(t, pool, box, outbox.Message{Destination: "hook", Type: "bad"})[0]
	for tellings := 5; tellings < 13; tellings++ { // from half a minute on, so that it does not come by itself
		if got := receive(t, "it is told", came); got != "bad" {
			t.Fatalf("told of %q", got)
		}
		var wait float64
		eventually(t, "it is put off", func() bool {
			wait = get[float64](t, pool, `select coalesce((select extract(epoch from tell_at - clock_timestamp())::double precision from txonce.message_outcome where tellings = $1::integer and tell_at is not null), 0)`, tellings+1)
			return wait != 0
		})
		if want := min(time.Second<<tellings, 10*time.Minute).Seconds(); wait > want || wait < want-30 {
			t.Errorf("behind %d times it is put off by %v s, want %v", tellings+1, wait, want)
		}
		publish(t, pool, box, outbox.Message{Destination: "hook", Type: "good"})
		if got := receive(t, "the other one is told of", came); got != "good" {
			t.Errorf("told of %q", got)
		}
		execute(t, pool, `update txonce.message_outcome set tell_at = now() where tell_at is not null`)
	}
	if f := fate(t, box, id); f.State != toolcall.MessageDelivered || f.Attempts != 1 || log.count("OnOutcome failed") < 8 {
		t.Errorf("%+v", f)
	}
}

// TestTell_O11_MayPublish: what is published in OnOutcome commits with it.
func TestTell_O11_MayPublish(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	hurry(t, pool)
	var box *outbox.Outbox
	calls := 0
	r := newReceiver(nil)
	box = newBox(t, pool, &outbox.Config{Poll: 5 * time.Millisecond}, outbox.Destination{Name: "mail", Publisher: r}, outbox.Destination{
		Name: "bank", Publisher: answers(delivered), OnOutcome: func(ctx context.Context, tx pgx.Tx, f outbox.Fate) error {
			if _, err := box.PublishTx(ctx, tx, outbox.Message{Destination: "mail", OrderingKey: "k", Key: f.Key + "-told"}); err != nil {
				return err
			}
			if calls++; calls == 1 {
				return errOops
			}
			return nil
		},
	})
	relay(t, box)
	publish(t, pool, box, outbox.Message{Destination: "bank"})
	r.wait(t, 1)
	eventually(t, "it is told", func() bool {
		return get[int](t, pool, `select count(*)::integer from txonce.message_outcome where tell_at is not null`) == 0
	})
	if n := messages(t, pool); n != 2 || calls != 2 {
		t.Errorf("%d messages behind %d calls", n, calls)
	}
}

// TestTell_O11_EachEnd: of each way to end, and again when a message that was sent again has ended.
func TestTell_O11_EachEnd(t *testing.T) {
	t.Parallel()
	pool := dbtest.Pool(t, nil)
	told := make(chan outbox.Fate, 100)
	box := newBox(t, pool, &outbox.Config{Poll: 5 * time.Millisecond}, outbox.Destination{
		Name: "hook", Publisher: answers(rejected, delivered),
		OnOutcome: func(_ context.Context, _ pgx.Tx, f outbox.Fate) error { told <- f; return nil },
	}, mail())
	expect := func(id toolcall.ID, state toolcall.MessageState, blocking bool) {
		t.Helper()
		if f := receive(t, "it is told", told); f.ID != id || f.State != state || f.Blocking != blocking || f.EndedAt.IsZero() {
			t.Errorf("told of %+v, want %s", f, state)
		}
	}
	relay(t, box)
	publish(t, pool, box, outbox.Message{Destination: "mail"}) // nobody wants to know
	id := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"})[0]
	expect(id, toolcall.MessageFailed, true)
	if err := box.Redrive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	expect(id, toolcall.MessageDelivered, false)
	id = publish(t, pool, box, outbox.Message{Destination: "hook", Delay: time.Hour})[0]
	if err := box.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	expect(id, toolcall.MessageCancelled, false)
}
