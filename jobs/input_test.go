package jobs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/txonce/txonce/toolcall"
)

var update = flag.Bool("update", false, "write the golden files of what people and models read anew")

// goldenIs compares what is said with a file in testdata.
func goldenIs(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("what is said has changed (-golden +now); if it is meant, run go test ./jobs -update:\n%s", diff)
	}
}

// said is an error, and what it has to be.
type said struct {
	label string
	err   error
	is    error // nil where callers cannot match it
}

// write writes what is said, one line each, and checks what holds for all.
func writeSaid(t *testing.T, b *strings.Builder, all []said) {
	t.Helper()
	for _, s := range all {
		switch {
		case s.err == nil:
			t.Errorf("%s: no error", s.label)
			continue
		case !strings.HasPrefix(s.err.Error(), "jobs: "):
			t.Errorf("%s: %q does not begin with the package's name", s.label, s.err)
		case strings.Contains(s.err.Error(), "%!"):
			t.Errorf("%s: %q is a botched format", s.label, s.err)
		case s.is != nil && !errors.Is(s.err, s.is):
			t.Errorf("%s: %q is no %q", s.label, s.err, s.is)
		}
		fmt.Fprintf(b, "%s\n\t%s\n", s.label, strings.ReplaceAll(s.err.Error(), "\n", "\n\t"))
	}
}

// TestInput_ErrorsSayWhatToDo: of each thing that can be wrong with what a program gives us.
func TestInput_ErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	pool := dummyPool(t)
	var b strings.Builder
	writeSaid(t, &b, badDefinitions(pool))
	writeSaid(t, &b, badConfigs(pool))
	writeSaid(t, &b, badSubmissions(t, pool))
	writeSaid(t, &b, badClients(t, pool))
	goldenIs(t, "errors.golden", b.String())
}

// dummyPool is one that never connects.
func dummyPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newError(pool *pgxpool.Pool, cfg *Config, definitions ...Registered) error {
	_, err := New(pool, cfg, definitions...)
	return err
}

func badDefinitions(pool *pgxpool.Pool) []said {
	all := []said{
		{"no pool", newError(nil, nil, plainly("report", nil)), nil},
		{"no definition", newError(pool, nil), nil},
		{"a nil definition", newError(pool, nil, nil), nil},
		{"a nil definition of a type", newError(pool, nil, (*Definition[in, out])(nil)), nil},
		{"no work", newError(pool, nil, Define[in, out]("report", nil, nil)), nil},
		{"two of a name", newError(pool, nil, plainly("report", nil), plainly("mail", nil), plainly("report", nil)), nil},
	}
	for _, name := range []string{"", "x", ".x", "-report", "re port", "report\n", "réport", "[report]", strings.Repeat("x", 101)} {
		all = append(all, said{fmt.Sprintf("the name %q", name), newError(pool, nil, plainly(name, nil)), nil})
	}
	for label, o := range map[string]Options{
		"Queue in capitals": {Queue: "Reports"}, "Queue with two signs": {Queue: "my--reports"}, "Queue too long": {Queue: strings.Repeat("x", 65)},
		"Priority below": {Priority: -1}, "Priority above": {Priority: 5},
		"MaxAttempts below": {MaxAttempts: -1}, "MaxAttempts above": {MaxAttempts: 1001},
		"Timeout below": {Timeout: -1}, "Timeout above": {Timeout: 31 * 24 * time.Hour},
		"Within below": {Within: -1}, "Within above": {Within: longestKeep + 1},
		"Retention below": {Retention: time.Microsecond}, "Retention above": {Retention: longestKeep + 1},
		"CommitTimeout below": {CommitTimeout: -1}, "CommitTimeout above": {CommitTimeout: time.Hour + 1},
		"MaxAnswer below": {MaxAnswer: -1}, "MaxAnswer above": {MaxAnswer: maxAnswer + 1},
	} {
		all = append(all, said{"Options." + label, newError(pool, nil, plainly("report", &o)), ErrOptions})
	}
	return sorted(all)
}

func sorted(all []said) []said {
	slices.SortFunc(all, func(a, b said) int { return strings.Compare(a.label, b.label) })
	return all
}

func badConfigs(pool *pgxpool.Pool) []said {
	taken := river.NewWorkers()
	river.AddWorkerArgs(taken, bell{kind: "report"}, ringer{})
	var all []said
	for label, c := range map[string]Config{
		"Schema in capitals": {Schema: "Txonce"}, "Schema too long": {Schema: strings.Repeat("x", 47)}, "Schema with a dot": {Schema: "a.b"},
		"Schema with a long RiverSchema": {Schema: strings.Repeat("x", 46)}, "RiverSchema with a quote": {RiverSchema: `a"b`},
		"Lease below": {Lease: 199 * time.Millisecond}, "Lease above": {Lease: time.Hour + 1}, "Lease negative": {Lease: -1},
		"Sweep below": {Sweep: 49 * time.Millisecond}, "Sweep above": {Sweep: time.Hour + 1},
		"MaxArgs below": {MaxArgs: -1}, "MaxArgs above": {MaxArgs: maxAnswer + 1},
		"Queues without workers": {Queues: map[string]int{"default": 0}}, "Queues with too many workers": {Queues: map[string]int{"default": 10_001}},
		"Queues with a bad name":     {Queues: map[string]int{"My Queue": 1}},
		"Workers that have the kind": {Workers: taken},
		"Configure":                  {Configure: func(c *river.Config) { c.FetchPollInterval = -time.Second }},
	} {
		all = append(all, said{"Config." + label, newError(pool, &c, plainly("report", nil)), nil})
	}
	return sorted(all)
}

func badSubmissions(t *testing.T, pool *pgxpool.Pool) []said {
	def, unknown := plainly("report", nil), plainly("report", nil)
	channels := Define("channels", func(context.Context, *Job[chan int]) (Commit[out], error) { return nil, nil }, nil)
	r, err := New(pool, &Config{MaxArgs: 100}, def, channels)
	if err != nil {
		t.Fatal(err)
	}
	late, err := New(pool, &Config{Workers: river.NewWorkers()}, def)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(d *Definition[in, out], r *Runner, args in, opts SubmitOpts) error {
		_, err := d.SubmitTx(t.Context(), noTx{}, r, args, &opts)
		return err
	}
	_, noArgs := channels.SubmitTx(t.Context(), noTx{}, r, make(chan int), &SubmitOpts{Scope: scope})
	_, nothing := def.SubmitTx(t.Context(), nil, r, in{}, &SubmitOpts{Scope: scope})
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	all := []said{
		{"SubmitTx of another runner's definition", submit(unknown, r, in{}, SubmitOpts{Scope: scope}), ErrUnknownKind},
		{"SubmitTx of a definition without work", submit(Define[in, out]("report", nil, nil), r, in{}, SubmitOpts{Scope: scope}), nil},
		{"SubmitTx without a runner", submit(def, nil, in{}, SubmitOpts{Scope: scope}), nil},
		{"SubmitTx without a transaction", nothing, nil},
		{"SubmitTx without a scope", submit(def, r, in{}, SubmitOpts{}), ErrScope},
		{"SubmitTx with a long scope", submit(def, r, in{}, SubmitOpts{Scope: strings.Repeat("x", 256)}), ErrScope},
		{"SubmitTx in front of UseClient", submit(def, late, in{}, SubmitOpts{Scope: scope}), ErrNoClient},
		{"Arguments that are too large", submit(def, r, in{Label: strings.Repeat("x", 100)}, SubmitOpts{Scope: scope}), ErrArgs},
		{"Arguments that are no JSON", noArgs, ErrArgs},
	}
	for label, o := range map[string]SubmitOpts{
		"Deadline in the past":       {Deadline: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		"Deadline in front of RunAt": {RunAt: time.Now().Add(time.Hour), Deadline: time.Now().Add(time.Minute)},
		"RunAt too late":             {RunAt: at}, "Deadline too late": {Deadline: at},
		"Queue": {Queue: "Reports"}, "Priority": {Priority: 5}, "MaxAttempts below": {MaxAttempts: -1}, "MaxAttempts above": {MaxAttempts: 1001},
	} {
		o.Scope = scope
		err := submit(def, r, in{}, o)
		if label == "Deadline in front of RunAt" {
			err = withoutTime{err, o.Deadline}
		}
		all = append(all, said{"SubmitOpts." + label, err, ErrOptions})
	}
	return sorted(all)
}

// noTx is a transaction of which nothing may be asked.
type noTx struct{ pgx.Tx }

// withoutTime is an error without a time that is another one in each run.
type withoutTime struct {
	error
	at time.Time
}

func (e withoutTime) Unwrap() error { return e.error }
func (e withoutTime) Error() string {
	return strings.ReplaceAll(e.error.Error(), e.at.UTC().Format(time.RFC3339), "TIME")
}

func badClients(t *testing.T, pool *pgxpool.Pool) []said {
	own, err := New(pool, nil, plainly("report", nil))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := New(pool, &Config{Workers: river.NewWorkers()}, plainly("report", nil))
	if err != nil {
		t.Fatal(err)
	}
	submitsOnly, err := New(pool, &Config{Queues: map[string]int{}}, plainly("report", nil))
	if err != nil {
		t.Fatal(err)
	}
	_, cancel := shared.Cancel(t.Context(), scope, toolcall.ID{})
	return []said{
		{"UseClient without one", shared.UseClient(nil), nil},
		{"UseClient beside an own one", own.UseClient(own.client.Load()), nil},
		{"Start in front of UseClient", shared.Start(t.Context()), ErrNoClient},
		{"Start without queues", submitsOnly.Start(t.Context()), nil},
		{"Cancel in front of UseClient", cancel, ErrNoClient},
	}
}
