package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ranOn = `{"Action":"output","Package":"x/txidem","Output":"dbtest: PostgreSQL 15.18 through pgbouncer 1.18.0 (transaction mode, 7 transactions), exec\n"}` + "\n"

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
	for label, c := range map[string]struct {
		way    way
		output string
		ok     bool
		says   string
	}{
		"good":           {pooled, good + pass, true, "pooler: txidem on PostgreSQL 15.18 through pgbouncer 1.18.0 (transaction mode, 7 transactions), exec: ok, 1 tests passed, 1 skipped\n"},
		"another mode":   {way{"pgbouncer", "cache_describe"}, good + pass, false, "FAILED: the tests say that they ran on"},
		"no pooler":      {way{"", "exec"}, good + pass, false, "FAILED: the tests say that they ran on"},
		"no word":        {pooled, strings.ReplaceAll(good, ranOn, "") + pass, false, `FAILED: the tests say that they ran on ""`},
		"a failed test":  {pooled, good + `{"Action":"output","Package":"x/txidem","Test":"TestD","Output":"why\n"}{"Action":"fail","Package":"x/txidem","Test":"TestD"}` + fail, false, "FAILED: 1 tests failed, 1 tests passed, 1 skipped\nwhy\n"},
		"after the test": {pooled, good + `{"Action":"output","Package":"x/txidem","Output":"goroutines are left\n"}` + fail, false, "goroutines are left\n"},
		"broken off":     {pooled, good, false, "FAILED: 0 tests failed"},
		"cut":            {pooled, good + pass[:9], false, "ends in the middle"},
		"nothing":        {pooled, "", false, "took"},
		"no tests":       {pooled, ranOn + pass, false, "FAILED: no test has run"},
	} {
		var out bytes.Buffer
		if ok := read(strings.NewReader(c.output)).print(&out, c.way); ok != c.ok || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v, says\n%s\nwant %v and %q", label, ok, &out, c.ok, c.says)
		}
	}
}

func TestSkips_R17_AreListedOnceWithTheirReason(t *testing.T) {
	t.Parallel()
	var all skips
	for _, mode := range []string{"exec", "simple_protocol"} {
		all.add(way{"pgbouncer", mode}, read(strings.NewReader(good)))
	}
	var out bytes.Buffer
	all.print(&out)
	want := "pooler: 1 tests were skipped somewhere\n" +
		"  txidem TestB/c: through a pooler: it makes no sense (through pgbouncer, exec; through pgbouncer, simple_protocol)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWays_R17_AreAllSix(t *testing.T) {
	t.Parallel()
	want := []way{
		{"", "exec"},
		{"", "cache_describe"},
		{"", "simple_protocol"},
		{"pgbouncer", "exec"},
		{"pgbouncer", "cache_describe"},
		{"pgbouncer", "simple_protocol"},
	}
	if diff := cmp.Diff(want, ways(false), cmp.AllowUnexported(way{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
