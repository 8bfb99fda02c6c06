package txidem

import (
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/txonce/txonce/toolcall"
)

// intent is an identity, and what the model knows of it.
type intent struct {
	scope, key string
	name       string // on its effects
	refuse     bool   // its policy after expiry
	args       [2][]string

	state   toolcall.State
	argsOf  int    // of the recorded call
	raw     string // what is recorded: an answer, or a failure
	failed  bool
	at      time.Time // when it was first told, zero where it was not
	effects []int     // the runs whose effects are committed, in all its lives
}

// GoString is what rapid prints.
func (i *intent) GoString() string { return i.name }

// recorded reports whether there is a row.
func (i *intent) recorded() bool { return i.state != toolcall.StateNone }

// free reports whether a call would run.
func (i *intent) free() bool {
	return !i.recorded() || i.state == toolcall.StateExpired && !i.refuse
}

// The same arguments in several spellings, and others in several spellings.
var (
	someArgs  = []string{`{"order":"A-1","cents":1050}`, ` { "cents" : 1.05e3, "order" : "\u0041-1" } `, `{"order":"A-1","cents":1050.00}`}
	otherArgs = []string{`{"order":"A-1","cents":99}`, `{"cents":0.99e2,"order":"A-1"}`}
)

type world struct {
	f       *fixture
	gone    *atomic.Bool // the database, for new connections
	name    string
	run     int // counts the runs of all handlers: their answers are all different
	intents []*intent
}

func newWorld(f *fixture, gone *atomic.Bool, name string) *world {
	w := &world{f: f, gone: gone, name: name}
	add := func(scope, key string, refuse bool, args ...[]string) {
		i := &intent{scope: name + "-" + scope, key: key, refuse: refuse, state: toolcall.StateNone}
		i.name = name + " " + scope + " " + key + " " + args[0][0]
		copy(i.args[:], args)
		w.intents = append(w.intents, i)
	}
	for _, key := range []string{"k1", "k2"} {
		add("alice", key, false, someArgs, otherArgs)
		add("bob", key, false, someArgs, otherArgs)
		add("carol", key, true, someArgs, otherArgs)
	}
	add("alice", "", false, someArgs)
	add("alice", "", true, otherArgs)
	return w
}

func (w *world) any(t *rapid.T) *intent { return rapid.SampledFrom(w.intents).Draw(t, "intent") }

// row is a record, or what the model makes of it.
type row struct {
	Intent, State, Answer string
	Expired               bool
}

// check compares the whole of this world with the model.
func (w *world) check(t *rapid.T) {
	effects, records := make(map[string][]int), make(map[string]row)
	for _, i := range w.intents {
		if i.effects != nil {
			effects[i.name] = i.effects
		}
		if i.recorded() {
			state := stateSucceeded
			if i.failed {
				state = stateFailed
			}
			records[w.id(i).String()] = row{Intent: i.scope, State: state, Answer: i.raw, Expired: i.state == toolcall.StateExpired}
		}
	}
	if diff := cmp.Diff(effects, w.f.ranLike(w.name+" %")); diff != "" {
		t.Fatalf("I1: effects are not the model's (-model +database):\n%s", diff)
	}
	if diff := cmp.Diff(records, w.records()); diff != "" {
		t.Fatalf("I2: records are not the model's (-model +database):\n%s", diff)
	}
	w.f.idle()
	if n := w.f.store.waits.len(); n != 0 {
		t.Fatalf("%d waits are left behind", n)
	}
}

func (w *world) records() map[string]row {
	found := make(map[string]row)
	rows, err := w.f.pool.Query(w.f.t.Context(), `select id::text, scope, state, convert_from(answer, 'UTF8'), expires_at <= clock_timestamp()
		from txonce.call where scope like $1`, w.name+"-%")
	if err != nil {
		w.f.t.Fatal(err)
	}
	var id string
	var r row
	if _, err := pgx.ForEachRow(rows, []any{&id, &r.Intent, &r.State, &r.Answer, &r.Expired}, func() error {
		found[id] = r
		return nil
	}); err != nil {
		w.f.t.Fatal(err)
	}
	return found
}
