package canonjson

import (
	"errors"
	"strings"
	"testing"
)

func mustCompile(t *testing.T, spec Spec) *Rules {
	t.Helper()
	rules, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestRules_K05_IgnoredMembersAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ paths, raw, want string }{
		{"/memo", `{"memo":"x","a":1}`, `{"a":1}`},
		{"/memo", `{"a":1}`, `{"a":1}`},
		{"/memo", `{"memo":null}`, `{}`},
		{"/memo", `{"Memo":1,"x":{"memo":2}}`, `{"Memo":1,"x":{"memo":2}}`},
		{"/memo", `["memo"]`, `["memo"]`},
		{"/memo", `"memo"`, `"memo"`},
		{"/a/b", `{"b":1,"a":{"b":2,"c":3}}`, `{"a":{"c":3},"b":1}`},
		{"/a/b", `{"a":[{"b":1}]}`, `{"a":[{"b":1}]}`},
		{"/a/*/b", `{"a":[{"b":1},{"b":2,"c":3}]}`, `{"a":[{},{"c":3}]}`},
		{"/a/*/b", `{"a":{"x":{"b":1,"c":2}},"b":0}`, `{"a":{"x":{"c":2}},"b":0}`},
		{"/a/1", `{"a":["x","y","z"]}`, `{"a":["x","z"]}`},
		{"/a/1", `{"a":{"1":2,"0":3}}`, `{"a":{"0":3}}`},
		{"/a/01", `{"a":["x","y"]}`, `{"a":["x","y"]}`},
		{"/a/-", `{"a":["x"]}`, `{"a":["x"]}`},
		{"/a/10", `{"a":[0,1,2,3,4,5,6,7,8,9,"x"]}`, `{"a":[0,1,2,3,4,5,6,7,8,9]}`},
		{"/*", `{"a":1}`, `{}`},
		{"/*", `[1,2]`, `[]`},
		{"/*", `7`, `7`},
		{"/*/*", `{"a":{"b":1},"c":2}`, `{"a":{},"c":2}`},
		{"/~2", `{"*":1,"a":2}`, `{"a":2}`},
		{"/a*", `{"a*":1,"ab":2}`, `{"ab":2}`},
		{"/**", `{"**":1,"*":2}`, `{"*":2}`},
		{"/~0~1", `{"~/":1,"~":2}`, `{"~":2}`},
		{"/~01", `{"~1":1,"/":2}`, `{"/":2}`},
		{"/", `{"":1,"a":2}`, `{"a":2}`},
		{"/a/", `{"a":{"":1,"b":2}}`, `{"a":{"b":2}}`},
		{"/é", `{"\u00e9":1,"e\u0301":2}`, "{\"e\u0301\":2}"},
		{"/a b", `{"a\u0020b":1}`, `{}`},
		{"/a,/c", `{"c":1,"b":2,"a":3}`, `{"b":2}`},
		{"/a,/a/b", `{"a":{"b":1}}`, `{}`},
		{"/*/x,/a/y", `{"a":{"x":1,"y":2,"z":3},"b":{"x":1,"y":2}}`, `{"a":{"z":3},"b":{"y":2}}`},
		{"/*/*/z,/*/b/y,/a/*/x,/a/b/w", `{"a":{"b":{"w":1,"x":2,"y":3,"z":4,"v":5}}}`, `{"a":{"b":{"v":5}}}`},
		{"/b", `{"c":[{"b":1}],"b":[[{"a":{}}]],"a":0}`, `{"a":0,"c":[{"b":1}]}`},
	} {
		rules := mustCompile(t, Spec{Ignore: strings.Split(tt.paths, ",")})
		if got := canonical(tt.raw, rules); got != tt.want {
			t.Errorf("ignoring %s: %s is %s, want %s", tt.paths, tt.raw, got, tt.want)
		}
	}
}

func TestRules_K05_RoundedTimestamps(t *testing.T) {
	t.Parallel()
	const s = `"`
	for _, tt := range []struct {
		unit    Unit
		in, out string
	}{
		{"1m", "2026-11-29T12:30:59.999Z", "2026-11-29T12:30:00Z"},
		{"1m", "2026-11-29T12:30:00Z", "2026-11-29T12:30:00Z"},
		{"1m", "2026-11-29T13:30:59+01:00", "2026-11-29T12:30:00Z"},
		{"1m", "2026-11-29T12:30:59-00:00", "2026-11-29T12:30:00Z"},
		{"24h", "2026-11-30T00:30:00+01:00", "2026-11-29T00:00:00Z"},
		{"168h", "2026-11-29T12:00:00Z", "2026-11-23T00:00:00Z"}, // a Monday
		{"1ns", "2026-11-29T12:00:00.123456789+02:00", "2026-11-29T10:00:00.123456789Z"},
		{"1ms", "2026-11-29T12:00:00.1239Z", "2026-11-29T12:00:00.123Z"},
		{"1s", "2026-11-29T12:00:00.1234567890123Z", "2026-11-29T12:00:00Z"},
		{"1h", "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z"},
		{"1h", "0000-06-01T23:30:00Z", "0000-06-01T23:00:00Z"},
		{"1h", "9999-12-31T23:59:59Z", "9999-12-31T23:00:00Z"},
		// Not timestamps: they count as they are.
		{"1m", "2026-11-29", "2026-11-29"},
		{"1m", "2026-11-29T12:30:59", "2026-11-29T12:30:59"},
		{"1m", "", ""},
		{"1m", "2026-11-29T12:30:59,5Z", "2026-11-29T12:30:59,5Z"},
		{"1m", "2026-11-29T1:30:59Z", "2026-11-29T1:30:59Z"},
		{"1m", "2026-11-29T12:30:59+24:00", "2026-11-29T12:30:59+24:00"},
		{"1m", "2026-11-29T12:30:59+23:60", "2026-11-29T12:30:59+23:60"},
		{"1m", "2026-11-29T12:30:59.Z", "2026-11-29T12:30:59.Z"},
		{"1m", "2026-11-29T24:00:00Z", "2026-11-29T24:00:00Z"},
		{"1m", "2026-11-29T12:30:59.5", "2026-11-29T12:30:59.5"},
		{"1h", "2026-11-29T12:30:59.5+23:59", "2026-11-28T12:00:00Z"},
		{"1m", "2026-02-30T12:30:59Z", "2026-02-30T12:30:59Z"},
		{"1m", "2026-11-29T12:30:60Z", "2026-11-29T12:30:60Z"},
		{"1m", "2026-11-29t12:30:59z", "2026-11-29t12:30:59z"},
		{"1m", " 2026-11-29T12:30:59Z", " 2026-11-29T12:30:59Z"},
		{"1m", "0000-01-01T00:00:30+14:00", "0000-01-01T00:00:30+14:00"},
		{"1m", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59-01:00"},
		{"60", "2026-11-29T12:30:59Z", "2026-11-29T12:30:59Z"},
	} {
		rules := mustCompile(t, Spec{Round: map[string]Unit{"/at": tt.unit}})
		if got, want := canonical(`{"at":"`+tt.in+`"}`, rules), `{"at":"`+tt.out+s+`}`; got != want {
			t.Errorf("round=%s: %s is %s, want %s", tt.unit, tt.in, got, want)
		}
	}
	rules := mustCompile(t, Spec{Round: map[string]Unit{"/at": "1m"}})
	for _, raw := range []string{`{"at":1735689659}`, `{"at":null}`, `{"at":["2026-11-29T12:30:59Z"]}`, `{"at":{"at":"2026-11-29T12:30:59Z"}}`} {
		if got, want := canonical(raw, rules), canonical(raw, nil); got != want {
			t.Errorf("round=1m: %s is %s, want %s", raw, got, want)
		}
	}
	if got := canonical(`{"at":"2026-11-29T12:30\u003a59Z"}`, rules); got != `{"at":"2026-11-29T12:30:00Z"}` {
		t.Errorf("an escaped timestamp is %s", got)
	}
}

func TestRules_K05_RoundedNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		unit    Unit
		in, out string
	}{
		{"60", "1735689659", "17356896e2"},
		{"60", "1735689600", "17356896e2"},
		{"60", "1735689659.999", "17356896e2"},
		{"60", "59", "0"},
		{"60", "-1", "-6e1"},
		{"60", "-60", "-6e1"},
		{"60", "-60.5", "-12e1"},
		{"60", "0", "0"},
		{"60", "-0.0", "0"},
		{"60", "1e-5000", "0"},
		{"60", "-1e-5000", "-6e1"},
		{"1", "1.999", "1"},
		{"1", "-1.001", "-2"},
		{"1", "-1", "-1"},
		{"0.01", "19.999", "1999e-2"},
		{"0.01", "19.99", "1999e-2"},
		{"0.01", "-0.001", "-1e-2"},
		{"0.25", "0.7", "5e-1"},
		{"2.5", "7", "5"},
		{"1e3", "1999", "1e3"},
		{"1e3", "999", "0"},
		{"1e3", "0", "0"},
		{"1000", "123456789012345678901234567890", "123456789012345678901234567e3"},
		{"7", "123456789012345678901234567890", "12345678901234567890123456789e1"},
		{"7", "123456789012345678901234567891", "12345678901234567890123456789e1"},
		{"7", "1e39", "999999999999999999999999999999999999994"},
		{"999999999999999999", "-1e39", "-1000000000000000000000999999999999998999"},
		{"1e17", "-1", "-1e17"},
		{"999999999999999999", "-1", "-999999999999999999"},
		{"7", "1e40", "1e40"},
		{"7", "1e9999", "1e9999"},
		{"7", "-1e9999", "-1e9999"}, // too long to write out: as they are
		{"1m", "1735689659", "1735689659"},
	} {
		rules := mustCompile(t, Spec{Round: map[string]Unit{"/n": tt.unit}})
		got, want := canonical(`{"n":`+tt.in+`}`, rules), `{"n":`+strings.TrimSuffix(tt.out, "e0")+`}`
		if got != want {
			t.Errorf("round=%s: %s is %s, want %s", tt.unit, tt.in, got, want)
		}
	}
	rules := mustCompile(t, Spec{Round: map[string]Unit{"/n": "60"}})
	for _, raw := range []string{`{"n":"61"}`, `{"n":[61]}`, `{"n":true}`, `{"m":61}`} {
		if got, want := canonical(raw, rules), canonical(raw, nil); got != want {
			t.Errorf("round=60: %s is %s, want %s", raw, got, want)
		}
	}
	deep := mustCompile(t, Spec{Round: map[string]Unit{"/*/n/1": "60"}})
	if got := canonical(`{"a":{"n":[61,61]}}`, deep); got != `{"a":{"n":[61,6e1]}}` {
		t.Errorf("a deep path: %s", got)
	}
}

func TestRules_K05_MergeAndPrecedence(t *testing.T) {
	t.Parallel()
	const raw = `{"a":{"n":3599,"x":1,"y":2},"at":"2026-11-29T12:34:56Z"}`
	minute := mustCompile(t, Spec{Ignore: []string{"/a/x"}, Round: map[string]Unit{"/a/n": "60"}})
	hour := mustCompile(t, Spec{Ignore: []string{"/a/y"}, Round: map[string]Unit{"/a/n": "3600", "/at": "1h"}})
	both := mustCompile(t, Spec{Round: map[string]Unit{"/*/n": "3600", "/a/n": "60"}})
	for _, tt := range []struct {
		name  string
		rules *Rules
		want  string
	}{
		{"later wins", Merge(minute, hour), `{"a":{"n":0},"at":"2026-11-29T12:00:00Z"}`},
		{"later wins, reversed", Merge(hour, nil, minute), `{"a":{"n":354e1},"at":"2026-11-29T12:00:00Z"}`},
		{"a name beats a wildcard", both, `{"a":{"n":354e1,"x":1,"y":2},"at":"2026-11-29T12:34:56Z"}`},
	} {
		if got := canonical(raw, tt.rules); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := Merge(nil, nil); got != nil {
		t.Errorf("Merge(nil, nil) = %v, want nil", got)
	}
	if got, err := Compile(Spec{}); got != nil || err != nil {
		t.Errorf("Compile of nothing = %v, %v, want nil", got, err)
	}
	// Both kinds of unit on one path: each value gets the one for its kind.
	kinds := Merge(mustCompile(t, Spec{Round: map[string]Unit{"/t": "1h"}}), mustCompile(t, Spec{Round: map[string]Unit{"/t": "100"}}))
	for in, want := range map[string]string{`{"t":"2026-11-29T12:34:56Z"}`: `{"t":"2026-11-29T12:00:00Z"}`, `{"t":199}`: `{"t":1e2}`} {
		if got := canonical(in, kinds); got != want {
			t.Errorf("two kinds of unit: %s is %s, want %s", in, got, want)
		}
	}
}

func TestCompile_K05_ErrorsNameThePath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spec Spec
		path string
	}{
		{Spec{Ignore: []string{"memo"}}, `"memo"`},
		{Spec{Ignore: []string{"/ok", ""}}, `""`},
		{Spec{Ignore: []string{"$.memo"}}, `"$.memo"`},
		{Spec{Ignore: []string{"/a~"}}, `"/a~"`},
		{Spec{Ignore: []string{"/a~3"}}, `"/a~3"`},
		{Spec{Ignore: []string{"/a\xff"}}, `"/a\xff"`},
		{Spec{Ignore: []string{strings.Repeat("/a", MaxDepth+1)}}, "/a/a"},
		{Spec{Round: map[string]Unit{"at": "1m"}}, `"at"`},
		{Spec{Round: map[string]Unit{"/at": ""}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "minute"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "0"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "0s"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "-1m"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "-60"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "1e41"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "1e-41"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "1e400000000"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": Unit(strings.Repeat("1", 19))}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "60 "}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "[60]"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/at": "0x10"}}, `"/at"`},
		{Spec{Ignore: []string{"/at"}, Round: map[string]Unit{"/at": "60"}}, `"/at"`},
		{Spec{Ignore: []string{"/at"}, Round: map[string]Unit{"/at": "1m"}}, `"/at"`},
		{Spec{Round: map[string]Unit{"/a*~2": "60", "/a~2*": "70"}}, `"/a~2*"`}, // one member, two spellings
		{Spec{Round: map[string]Unit{"/a*~2": "1m", "/a~2*": "2m"}}, `"/a~2*"`},
	} {
		rules, err := Compile(tt.spec)
		if !errors.Is(err, ErrBadRule) || rules != nil || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("Compile(%.80v) = %v, %v, want ErrBadRule with %s", tt.spec, rules, err, tt.path)
		}
	}
}

func TestPath_TokensComeBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a", "*", "**", "~", "/", "~1", "~2", "a/b~c*", "é", "0", "-", "\u2028"} {
		tokens, err := parsePath(string(appendToken(nil, []byte(name))))
		if err != nil || len(tokens) != 1 || tokens[0].any || tokens[0].name != name {
			t.Errorf("%q comes back as %v, %v", name, tokens, err)
		}
	}
}
