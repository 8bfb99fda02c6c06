package txidem

import (
	"slices"
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
	ways       []Way // in which it is called, the usual ones more often

	row     string // the state in its record, or nothing
	leased  bool   // its record is one of RunLeased
	live    bool   // its lease has not run out
	overdue bool   // its record's time has gone by
	argsOf  int    // of the recorded call
	raw     string // what is recorded: an answer, or a failure
	at      time.Time
	effects []int   // the runs whose effects are committed, in all its lives
	around  []int   // what the callers of RunTx wrote and committed in front of the calls and behind them
	lives   []*life // what the provider was told
	holder  *zombie // who has the lease, if it still runs
}

// life is one intent of a leased identity: from a claim to the end of its record.
type life struct {
	key  string // downstream; the first attempt's is the others'
	runs []int  // that told the provider
}

// GoString is what rapid prints.
func (i *intent) GoString() string { return i.name }

func (i *intent) recorded() bool { return i.row != "" }
func (i *intent) failed() bool   { return i.row == stateFailed }

// expired reports whether the record's time is over. A lease keeps it.
func (i *intent) expired() bool { return i.overdue && !i.live }

// cutOff reports whether the last attempt of a leased call is over, nobody knows how.
func (i *intent) cutOff() bool { return i.row == stateRunning && !i.live }

// free reports whether a call would run as a new intent.
func (i *intent) free() bool { return !i.recorded() || i.expired() && !i.refuse }

// state is what Status says.
func (i *intent) state() toolcall.State {
	switch {
	case i.row == "":
		return toolcall.StateNone
	case i.live:
		return toolcall.StateRunning
	case i.row == stateRunning:
		return toolcall.StateUnknown
	case i.overdue:
		return toolcall.StateExpired
	case i.failed():
		return toolcall.StateFailed
	}
	return toolcall.StateSucceeded
}

// gone is what the model learns when the record is removed.
func (i *intent) gone() { i.row, i.live, i.overdue, i.holder = "", false, false, nil }

// The same arguments in several spellings, and others in several spellings.
var (
	someArgs  = []string{`{"order":"A-1","cents":1050}`, ` { "cents" : 1.05e3, "order" : "\u0041-1" } `, `{"order":"A-1","cents":1050.00}`}
	otherArgs = []string{`{"order":"A-1","cents":99}`, `{"cents":0.99e2,"order":"A-1"}`}
)

// Most identities are called in the ways that share a record, some by RunLeased; each is called in a wrong way at times.
var (
	inTx    = []Way{WayRun, WayRun, WayRun, WayTx, WayTx, WayTx, WayBatch, WayBatch, WayBatch, WayLeased}
	byLease = []Way{WayLeased, WayLeased, WayLeased, WayLeased, WayLeased, WayLeased, WayLeased, WayRun, WayTx, WayBatch}
)

type world struct {
	f       *fixture
	net     *network
	level   pgx.TxIsoLevel
	name    string
	run     int // counts the runs of all handlers: their answers are all different
	intents []*intent
	zombies []*zombie // leased attempts that have not returned
}

func newWorld(f *fixture, net *network, level pgx.TxIsoLevel, name string) *world {
	w := &world{f: f, net: net, level: level, name: name}
	add := func(scope, key string, ways []Way, refuse bool, args ...[]string) {
		i := &intent{scope: name + "-" + scope, key: key, ways: ways, refuse: refuse}
		i.name = name + " " + scope + " " + key + " " + args[0][0]
		copy(i.args[:], args)
		w.intents = append(w.intents, i)
	}
	for _, key := range []string{"k1", "k2"} {
		add("alice", key, inTx, false, someArgs, otherArgs)
		add("bob", key, inTx, false, someArgs, otherArgs)
		add("carol", key, inTx, true, someArgs, otherArgs)
		add("dave", key, byLease, false, someArgs, otherArgs)
	}
	add("alice", "", inTx, false, someArgs)
	add("alice", "", inTx, true, otherArgs)
	add("erin", "k1", byLease, true, someArgs, otherArgs)
	add("erin", "", byLease, false, someArgs)
	return w
}

func (w *world) any(t *rapid.T) *intent { return rapid.SampledFrom(w.intents).Draw(t, "intent") }

// row is a record, or what the model makes of it.
type row struct {
	Intent, State, Answer string
	Leased, Live, Overdue bool
}

// check compares the whole of this world with the model.
func (w *world) check(t *rapid.T) {
	effects, records, told := make(map[string][]int), make(map[string]row), make(map[string][]int)
	for _, i := range w.intents {
		for name, runs := range map[string][]int{i.name: i.effects, i.name + around: i.around} {
			if runs != nil {
				effects[name] = slices.Sorted(slices.Values(runs))
			}
		}
		for _, l := range i.lives {
			if l.runs != nil {
				told[i.name+" "+l.key] = slices.Sorted(slices.Values(l.runs))
			}
		}
		if i.recorded() {
			records[w.id(i).String()] = row{Intent: i.scope, State: i.row, Answer: i.raw, Leased: i.leased, Live: i.live, Overdue: i.overdue}
		}
	}
	if diff := cmp.Diff(effects, w.f.ranLike(w.name+" %")); diff != "" {
		t.Fatalf("I1: effects are not the model's (-model +database):\n%s", diff)
	}
	if diff := cmp.Diff(records, w.records()); diff != "" {
		t.Fatalf("I2: records are not the model's (-model +database):\n%s", diff)
	}
	if diff := cmp.Diff(told, w.provider()); diff != "" {
		t.Fatalf("R14: what the provider was told, by downstream key, is not the model's (-model +database):\n%s", diff)
	}
	w.f.idle()
	if n := w.f.store.waits.len(); n != 0 {
		t.Fatalf("%d waits are left behind", n)
	}
}

func (w *world) records() map[string]row {
	found := make(map[string]row)
	rows, err := w.f.pool.Query(w.f.t.Context(), `select id::text, scope, state, convert_from(answer, 'UTF8'),
		leased, coalesce(lease_until > clock_timestamp(), false), expires_at <= clock_timestamp()
		from txonce.call where scope like $1`, w.name+"-%")
	if err != nil {
		w.f.t.Fatal(err)
	}
	var id string
	var r row
	if _, err := pgx.ForEachRow(rows, []any{&id, &r.Intent, &r.State, &r.Answer, &r.Leased, &r.Live, &r.Overdue}, func() error {
		found[id] = r
		return nil
	}); err != nil {
		w.f.t.Fatal(err)
	}
	return found
}
