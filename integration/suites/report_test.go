package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/dbtest"
)

const ranOn = `{"Action":"output","Package":"x/txidem","Output":"ran on: PostgreSQL 15.18 through pgbouncer 1.18.0 (transaction mode, 7 transactions), exec\n"}` + "\n"

const good = `{"Action":"start","Package":"x/txidem"}
{"Action":"run","Package":"x/txidem","Test":"TestA"}
{"Action":"output","Package":"x/txidem","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"x/txidem","Test":"TestA"}
{"Action":"output","Package":"x/txidem","Test":"TestB/c","Output":"    b_test.go:5: testdbconf: postgres://x\n"}
{"Action":"output","Package":"x/txidem","Test":"TestB/c","Output":"    b_test.go:7: through a pooler: it makes no sense\n"}
{"Action":"output","Package":"x/txidem","Test":"TestB/c","Output":"--- SKIP: TestB/c (0.00s)\n"}
{"Action":"skip","Package":"x/txidem","Test":"TestB/c"}
` + ranOn

// TestReport_R17_SaysWhatHappened: a run is good only if its tests passed, on what they were to run on.
func TestReport_R17_SaysWhatHappened(t *testing.T) {
	t.Parallel()
	pooled := way{"pgbouncer", "exec"}
	const pass, fail = `{"Action":"pass","Package":"x/txidem"}`, `{"Action":"fail","Package":"x/txidem"}`
	direct := strings.ReplaceAll(good, " through pgbouncer 1.18.0 (transaction mode, 7 transactions), exec", ", directly, cache_statement")
	for label, c := range map[string]struct {
		way     way
		version string
		output  string
		ok      bool
		says    string
	}{
		"good":           {pooled, "15.18", good + pass, true, "suite: txidem on PostgreSQL 15.18 through pgbouncer 1.18.0 (transaction mode, 7 transactions), exec (a place): ok, 1 tests passed, 1 skipped\n"},
		"figures":        {pooled, "15.18", good + `{"Action":"output","Package":"x/txidem","Test":"TestE","Output":"measured: none lost\n"}` + pass, true, "1 skipped\n  none lost\n"},
		"pgx's default":  {way{}, "15.18", direct + pass, true, "suite: txidem on PostgreSQL 15.18, directly, cache_statement (a place): ok"},
		"not directly":   {way{}, "15.18", good + pass, false, "FAILED: the tests say that they ran on"},
		"another mode":   {way{"pgbouncer", "cache_describe"}, "15.18", good + pass, false, "FAILED: the tests say that they ran on"},
		"another server": {pooled, "17.12", good + pass, false, "FAILED: the tests say that they ran on"},
		"no pooler":      {way{"", "exec"}, "15.18", good + pass, false, "FAILED: the tests say that they ran on"},
		"no word":        {pooled, "15.18", strings.ReplaceAll(good, ranOn, "") + pass, false, `FAILED: the tests say that they ran on []`},
		"a failed test":  {pooled, "15.18", good + `{"Action":"output","Package":"x/txidem","Test":"TestD","Output":"why\n"}{"Action":"fail","Package":"x/txidem","Test":"TestD"}` + fail, false, "FAILED: 1 tests failed, 1 tests passed, 1 skipped\nwhy\n"},
		"after the test": {pooled, "15.18", good + `{"Action":"output","Package":"x/txidem","Output":"goroutines are left\n"}` + fail, false, "goroutines are left\n"},
		"broken off":     {pooled, "15.18", good, false, "FAILED: 0 tests failed"},
		"cut":            {pooled, "15.18", good + pass[:9], false, "ends in the middle"},
		"nothing":        {pooled, "15.18", "", false, ""},
		"no tests":       {pooled, "15.18", ranOn + pass, false, "FAILED: no test has run"},
	} {
		var out, progress bytes.Buffer
		r := &runner{stdout: &out, stderr: &progress}
		r.note(read(strings.NewReader(c.output)), c.way.String(), func(s *suite) string { return s.checkCore(c.version, c.way) }, "a place")
		if r.bad == c.ok || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: bad: %v, says\n%s\nwant ok: %v and %q", label, r.bad, &out, c.ok, c.says)
		}
	}
}

// TestReport_R02_OwnServersAreAllOfThem: a suite with servers of its own is good only if it ran in each place at hand.
func TestReport_R02_OwnServersAreAllOfThem(t *testing.T) {
	t.Parallel()
	places, err := servers.AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{name: "x/faults", ended: "pass", passed: 3}
	for i, p := range places {
		if s.checkOwn(places, false) == "" {
			t.Errorf("it is good after %d of %d places", i, len(places))
		}
		s.ranOn = append(s.ranOn, "PostgreSQL 15.18, "+p.String())
	}
	if wrong := s.checkOwn(places, true); wrong != "" {
		t.Error(wrong)
	}
	s.skips = []skip{{}}
	if s.checkOwn(places, false) != "" || s.checkOwn(places, true) == "" {
		t.Error("a skipped test is bad where nothing may be missing, and only there")
	}
	s.skips, s.failed = nil, []string{"TestA"}
	if s.checkOwn(places, false) == "" {
		t.Error("it is good though a test failed")
	}
}

func TestSkips_R17_AreListedOnceWithTheirReason(t *testing.T) {
	t.Parallel()
	var all skips
	for _, mode := range []string{"exec", "simple_protocol"} {
		all.add("17, "+way{"pgbouncer", mode}.String(), read(strings.NewReader(good)))
	}
	var out bytes.Buffer
	all.print(&out)
	want := "suites: 1 tests were skipped somewhere\n" +
		"  txidem TestB/c: through a pooler: it makes no sense (17, through pgbouncer, exec; 17, through pgbouncer, simple_protocol)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWays_R17_AreAll(t *testing.T) {
	t.Parallel()
	var names []string
	for name := range strings.SplitSeq("default,exec,cache_describe,simple_protocol,pgbouncer/exec,pgbouncer/cache_describe,pgbouncer/simple_protocol", ",") {
		w, err := parseWay(name)
		if err != nil || !slices.Contains(allWays(), w) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
		names = append(names, w.String())
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(allWays()) {
		t.Errorf("%d different ways have names, there are %d", n, len(allWays()))
	}
	for _, wrong := range []string{"", "pgbouncer/default", "odyssey/exec", "cache_statement"} {
		if w, err := parseWay(wrong); err == nil {
			t.Errorf("%q is %v", wrong, w)
		}
	}
}

// TestPlan_R17_EachServerEachWay: everything without flags, and in a quick run one that is drawn.
func TestPlan_R17_EachServerEachWay(t *testing.T) {
	t.Parallel()
	places, err := servers.AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	oldest, newest := places[0], places[len(places)-1]
	for args, want := range map[string][]combination{
		"-places newest -ways default,pgbouncer/exec": {{newest, []way{{}, {"pgbouncer", "exec"}}}},
		"-places " + oldest.Name():                    {{oldest, allWays()}},
	} {
		o, err := parse(strings.Fields(args), &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.plan(places, dbtest.Draw(""))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(combination{}, way{}), cmp.Comparer(func(a, b servers.Place) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", args, err, diff)
		}
	}
	draw := rand.New(rand.NewPCG(1, 2))
	drawn := make(map[string]bool)
	for range 1000 {
		got, err := options{quick: true}.plan(places, draw)
		if err != nil || len(got) != 1 || len(got[0].ways) != 1 || got[0].ways[0] == (way{}) {
			t.Fatalf("a quick run is %v (%v)", got, err)
		}
		drawn[fmt.Sprint(got[0])] = true
	}
	if want := len(places) * (len(allWays()) - 1); len(drawn) != want {
		t.Errorf("quick runs are %v, want %d others", drawn, want)
	}
	packages := make(map[string]bool)
	for range 1000 {
		drawn := options{quick: true}.packagesOf(way{"", "exec"}, draw)
		if len(drawn) != 1+quickPackages || drawn[0] != "./txidem" {
			t.Fatalf("a quick run is of %q", drawn)
		}
		for _, p := range drawn {
			packages[p] = true
		}
	}
	if len(packages) != len(corePackages()) {
		t.Errorf("quick runs are of %v", packages)
	}
	all, err := options{}.plan(places, dbtest.Draw(""))
	if err != nil || len(all) != len(places) || len(all[0].ways) != 7 {
		t.Errorf("all is %v (%v)", all, err)
	}
	for _, names := range []string{"9", "newest,9"} {
		if plan, err := (options{places: strings.Split(names, ",")}).plan(places, dbtest.Draw("")); err == nil {
			t.Errorf("places of which one is not there, %s, give %v", names, plan)
		}
	}
	for _, wrong := range []string{"-core -own", "-own ./txidem", "-ways odyssey/exec", "-nonsense"} {
		if _, err := parse(strings.Fields(wrong), &bytes.Buffer{}); err == nil {
			t.Errorf("%s is fine", wrong)
		}
	}
}

// TestRunner_NothingIsNotGood: a run of no package proves nothing.
func TestRunner_NothingIsNotGood(t *testing.T) {
	t.Parallel()
	if status := (&runner{stdout: &bytes.Buffer{}}).end(); status != 1 {
		t.Errorf("a run of nothing ends with status %d, want 1", status)
	}
}

// TestRunner_QuickLeavesNoSuiteOut: breaking servers is what the suites with servers of their own are for.
func TestRunner_QuickLeavesNoSuiteOut(t *testing.T) {
	t.Parallel()
	if args := (&runner{options: options{quick: true}}).test(); slices.Contains(args, "-skip") || !slices.Contains(args, "-short") {
		t.Errorf("all packages are run by %q", args)
	}
}
