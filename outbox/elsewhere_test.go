package outbox_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txonce/txonce/internal/dbtest"
	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// TestRelay_O09_WriterInAnotherDatabase is trap 2: a transaction that writes elsewhere in the cluster, and one that holds a snapshot
// here, delay nothing.
func TestRelay_O09_WriterInAnotherDatabase(t *testing.T) {
	t.Parallel()
	pool, elsewhere := dbtest.Pool(t, nil), dbtest.Pool(t, nil)
	r := newReceiver(nil)
	box := newBox(t, pool, nil, outbox.Destination{Name: "hook", Publisher: r})
	writer, err := elsewhere.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.Background()) }()
	if _, err := writer.Exec(t.Context(), `create table open (id int)`); err != nil {
		t.Fatal(err)
	}
	here, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Rollback(context.Background()) }()
	for _, sql := range []string{`set transaction isolation level repeatable read`, `select count(*) from txonce.message`, `create table open (id int)`} {
		if _, err := here.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	relay(t, box)
	for range 10 {
		ids := publish(t, pool, box, outbox.Message{Destination: "hook", OrderingKey: "k"}, outbox.Message{Destination: "hook"})
		for _, id := range ids {
			ended(t, box, id, toolcall.MessageDelivered, 1)
		}
	}
}

// program finds one of PostgreSQL's client programs.
func program(t *testing.T, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if path, err := exec.LookPath(name); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		t.Skip(name + " is not installed")
	}
	return found[len(found)-1]
}

// skipTooOld skips the test where the program is older than the server, whose databases it then does not dump. For those,
// integration/versions has such a test with the server's own.
func skipTooOld(t *testing.T, pgDump, url string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), pgDump, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major int
	if _, err := fmt.Sscanf(string(out), "pg_dump (PostgreSQL) %d", &major); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if of := get[int](t, dbtest.PoolAt(t, url, nil), `select current_setting('server_version_num')::integer / 10000`); major < of {
		t.Skipf("pg_dump is of PostgreSQL %d, the server of %d", major, of)
	}
}

// restore copies the outbox of one database into another, as a dump and restore do.
func restore(t *testing.T, from, to string) {
	t.Helper()
	pgDump := program(t, "pg_dump")
	skipTooOld(t, pgDump, from)
	var said bytes.Buffer
	dump := exec.CommandContext(t.Context(), pgDump, "--schema=txonce", "--clean", "--if-exists", "--no-owner", "--dbname="+from)
	dump.Stderr = &said
	out, err := dump.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	load := exec.CommandContext(t.Context(), program(t, "psql"), "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--single-transaction", "--dbname="+to)
	load.Stdin = bytes.NewReader(out)
	if said, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}

// TestRelay_O09_DumpAndRestore is trap 11: in the middle of deliveries the database is dumped, and what it held is restored into
// another one: what had not ended is delivered there, in order, and what is published afterwards comes behind it.
func TestRelay_O09_DumpAndRestore(t *testing.T) {
	t.Parallel()
	from, to := dbtest.URL(t), dbtest.URL(t)
	pool := dbtest.PoolAt(t, from, nil)
	g := newGate(t)
	d := outbox.Destination{Name: "broker", Publisher: g, Concurrency: 4, Timeout: time.Minute}
	box := newBox(t, pool, nil, d)
	var all []outbox.Message
	for i := range 40 {
		all = append(all, outbox.Message{Destination: "broker", OrderingKey: fmt.Sprint(i % 4), Body: []byte{byte(i)}})
	}
	ids := publish(t, pool, box, all...)
	relay(t, box)
	var done []*visit
	for range 12 {
		done = append(done, g.next(t))
		if last := done[len(done)-1]; string(last.OrderingKey) == "3" {
			last.answers(rejected) // its key is blocked
		} else {
			last.answers(delivered)
		}
	}
	eventually(t, "four are under way, or blocked", func() bool {
		return get[int](t, pool, `select count(*)::integer from txonce.message_pending where token is not null or dead`) == 4
	})
	restore(t, from, to)

	there := dbtest.PoolAt(t, to, nil)
	var mu sync.Mutex
	got := map[string]string{}
	r := newReceiver(func(d outbox.Delivery) (outbox.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		got[d.OrderingKey] += fmt.Sprint(" ", d.Body[0])
		return delivered, nil
	})
	d.Publisher = r
	copied := newBox(t, there, nil, d)
	pending := get[int](t, there, `select count(*)::integer from txonce.message_pending`)
	for i := range 4 {
		publish(t, there, copied, outbox.Message{Destination: "broker", OrderingKey: fmt.Sprint(i), Body: []byte{byte(100 + i)}})
	}
	lapsed := get[int](t, there, `with lapsed as (update txonce.message_pending set lease_until = clock_timestamp() where token is not null returning 1) select count(*)::integer from lapsed`)
	if lapsed == 0 {
		t.Error("nothing was under way")
	}
	relay(t, copied)
	if err := copied.Redrive(t.Context(), deadOf(t, copied, ids)); err != nil {
		t.Fatal(err)
	}
	r.wait(t, pending+4)
	mu.Lock()
	defer mu.Unlock()
	for i := range 4 {
		var want strings.Builder
		begun := 0
		for _, v := range done {
			if v.OrderingKey == fmt.Sprint(i) && i != 3 {
				begun++
			}
		}
		for n := i + 4*begun; n < 40; n += 4 {
			fmt.Fprint(&want, " ", n)
		}
		fmt.Fprint(&want, " ", 100+i)
		if got[fmt.Sprint(i)] != want.String() {
			t.Errorf("key %d: restored messages came as %s, want %s", i, got[fmt.Sprint(i)], want.String())
		}
	}
}

// deadOf is the one that has failed.
func deadOf(t *testing.T, box *outbox.Outbox, ids []toolcall.ID) toolcall.ID {
	t.Helper()
	for _, id := range ids {
		if fate(t, box, id).Blocking {
			return id
		}
	}
	t.Fatal("none has failed")
	panic("unreachable")
}
