package canonjson

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// canonical is the canonical form of raw, or the text of the error.
func canonical(raw string, rules *Rules) string {
	canon, err := Canonical(Version, []byte(raw), rules)
	if err != nil {
		return err.Error()
	}
	return string(canon)
}

// goldens freeze version 1. Records hold hashes of these bytes for as long as they are kept.
var goldens = []struct{ raw, canon string }{
	{` null `, `null`},
	{"\ttrue\n", `true`},
	{"\r false", `false`},
	{`{ }`, `{}`},
	{`[ ]`, `[]`},
	{`""`, `""`},
	{`0`, `0`},
	{`-0`, `0`},
	{`0.000`, `0`},
	{`-0.0e-7`, `0`},
	{`0e999999999999999999999999`, `0`},
	{`1`, `1`},
	{`1.0`, `1`},
	{`1e0`, `1`},
	{`1E+00`, `1`},
	{`10e-1`, `1`},
	{`-1`, `-1`},
	{`10`, `1e1`},
	{`100`, `1e2`},
	{`1e2`, `1e2`},
	{`120`, `12e1`},
	{`-1.50`, `-15e-1`},
	{`0.001`, `1e-3`},
	{`5e-1`, `5e-1`},
	{`0.0120e+3`, `12`},
	{`123.456`, `123456e-3`},
	{`1e00000000000000007`, `1e7`},
	{`1e-0007`, `1e-7`},
	{`9007199254740993`, `9007199254740993`},
	{`9007199254740992`, `9007199254740992`},
	{`123456789012345678901234567890.12`, `12345678901234567890123456789012e-2`},
	{`1e400`, `1e400`},
	{`1e9999`, `1e9999`},
	{`1e-9999`, `1e-9999`},
	{`[1, [2.0, "x"], {}]`, `[1,[2,"x"],{}]`},
	{`{"b":{"d":1,"c":2},"a":[{"z":0,"y":null}]}`, `{"a":[{"y":null,"z":0}],"b":{"c":2,"d":1}}`},
	{`{"a":1,"B":2,"":3,"aa":4,"A":5,"a ":6}`, `{"":3,"A":5,"B":2,"a":1,"a ":6,"aa":4}`},
	{`{"abcdefghij":1,"a\u0000b":2,"abcdefgh":3,"a":4,"abcdefghi":5,"a\u0000":6}`, `{"a":4,"a\u0000":6,"a\u0000b":2,"abcdefgh":3,"abcdefghi":5,"abcdefghij":1}`},
	{`{"\uffee":1,"\ud83d\ude00":2,"z":3}`, "{\"z\":3,\"\uffee\":1,\"\U0001f600\":2}"}, // UTF-16 order would differ
	{`{"a\u0062":1,"\u0061a":2,"a\"":3,"a!":4,"a\n":5}`, `{"a\n":5,"a!":4,"a\"":3,"aa":2,"ab":1}`},
	{`"\u0041\/\u00e9\u2028\u003c>&"`, "\"A/é\u2028<>&\""},
	{`"\b\t\n\f\r\u0000\u001F\u007f\"\\"`, `"\b\t\n\f\r\u0000\u001f` + "\x7f" + `\"\\"`},
	{`"\u000a\u000D\u0008"`, `"\n\r\b"`},
	{`"caf\u00e9"`, "\"caf\u00e9\""},
	{`"cafe\u0301"`, "\"cafe\u0301\""},
	{`"\ud83d\ude00"`, "\"\U0001f600\""},
}

func TestCanonical_K09_GoldenForm(t *testing.T) {
	t.Parallel()
	const bump = "the canonical form is frozen: undo this, or bump Version and keep the old form beside the new one"
	for _, g := range goldens {
		got, err := Canonical(1, []byte(g.raw), nil)
		if err != nil || string(got) != g.canon {
			t.Errorf("Canonical(1, %s) = %s, %v, want %s: %s", g.raw, got, err, g.canon, bump)
		}
		if again, err := Canonical(1, got, nil); err != nil || !bytes.Equal(again, got) {
			t.Errorf("Canonical(1, %s) = %s, %v, want no change", got, again, err)
		}
	}
	sum, err := Sum(1, []byte(typicalCall), nil)
	const want = "9e68c9fcaa28caab96d40965bac29d50303ea05bfe1674208029bb3c9bb2d1c8"
	if got := hex.EncodeToString(sum[:]); err != nil || got != want {
		t.Errorf("Sum(1, typical call) = %s, %v, want %s: %s", got, err, want, bump)
	}
}

func TestSum_K09_UnknownVersionIsAnError(t *testing.T) {
	t.Parallel()
	for _, version := range []int{-1, 0, 2, 255} {
		if _, err := Sum(version, []byte(`{}`), nil); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("Sum(%d) error = %v, want ErrUnknownVersion", version, err)
		}
	}
	if _, err := Sum(Version, []byte(`{}`), nil); err != nil {
		t.Errorf("Sum(Version) error = %v", err)
	}
}

// classes are values in several spellings. Members of a class are equal, members of two classes are not.
var classes = [][]string{
	{`{}`, ` { } `},
	{`[]`},
	{`""`},
	{`null`},
	{`false`},
	{`0`, `-0`, `0.0`, `0e5`, `-0e-99999999999`},
	{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, `1E+0`, `100.00E-2`},
	{`"1"`},
	{`[1]`, `[1.0]`},
	{`-1`, `-1.0`},
	{`true`},
	{`10`, `1e1`, `1.0e+1`},
	{`11`},
	{`1.1`},
	{`1e-1`, `0.1`},
	{`1e10`, `10000000000`},
	{`1e11`},
	{`9007199254740992`},
	{`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
	{`9007199254740994`},
	{`123456789012345678901234567890.10`, `123456789012345678901234567890.1`},
	{`123456789012345678901234567890.11`},
	{`123456789012345678901234567891.10`},
	{`1e400`, `10e399`},
	{`1e401`},
	{`-1e400`},
	{`1e-400`},
	{`1e-401`},
	{`0.1e400`, `1e399`},
	{`{"a":null}`},
	{`{"a":0}`},
	{`{"a":""}`},
	{`{"a":{}}`},
	{`{"a":[]}`},
	{`{"a":false}`},
	{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{"\u0062":2.0,"\u0061":10e-1}`},
	{`{"a":2,"b":1}`},
	{`{"ab":1,"":2}`},
	{`{"x":{"a":[{"c":1,"d":2}],"b":0}}`, `{"x":{"b":0,"a":[{"d":2,"c":1}]}}`},
	{`{"ID":1,"id":2}`, `{"id":2,"ID":1}`},
	{`{"ID":2,"id":1}`},
	{`[1,2]`},
	{`[2,1]`},
	{`[[1],2]`},
	{`[1,[2]]`},
	{`[null]`},
	{`[null,null]`},
	{`"caf\u00e9"`, "\"caf\u00e9\""},
	{`"cafe\u0301"`, "\"cafe\u0301\""},
	{`"<>&"`, `"\u003c\u003e\u0026"`, `"\u003C>&"`},
	{`"\\u003c>&"`},
	{`"\u2028"`, "\"\u2028\""},
	{`"/"`, `"\/"`, `"\u002f"`},
	{`"a\nb"`, `"a\u000ab"`, `"a\u000Ab"`},
	{`"anb"`},
	{`"\ud83d\ude00"`, "\"\U0001f600\""},
	{`"\ufffd"`, "\"\ufffd\""},
	{`"\u0000"`},
	{`" "`},
	{`"\\"`},
	{`"\""`},
}

func TestSum_K04_EqualValuesAndOnlyThoseHaveOneSum(t *testing.T) {
	t.Parallel()
	owner := make(map[[32]byte]int)
	for i, class := range classes {
		for _, raw := range class {
			sum, err := Sum(Version, []byte(raw), nil)
			if err != nil {
				t.Fatalf("Sum(%s): %v", raw, err)
			}
			if j, ok := owner[sum]; ok && j != i {
				t.Errorf("%s has the sum of %s", raw, classes[j][0])
			}
			owner[sum] = i
		}
	}
	if len(owner) != len(classes) {
		t.Errorf("%d classes have %d sums", len(classes), len(owner))
	}
}

func TestSum_K04_NumbersAreExact(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, raw := range []string{
		`9007199254740992`, `9007199254740993`, `-9007199254740993`, `18446744073709551615`, `18446744073709551616`,
		`0.1`, `0.10000000000000000555`, `1e400`, `1e401`, `-1e400`, `1e-400`, `1e9999`, `1e-9999`,
		strings.Repeat("9", 1024), strings.Repeat("9", 1023) + "8", "0." + strings.Repeat("9", 1023),
	} {
		canon := canonical(raw, nil)
		if other, ok := seen[canon]; ok {
			t.Errorf("%s and %s are both %s", raw, other, canon)
		}
		seen[canon] = raw
	}
}

func TestSum_K04_BadInputHasANamedError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw  string
		want error
		text string
	}{
		{``, ErrEmpty, ""},
		{" \n", ErrEmpty, ""},
		{`{`, ErrSyntax, "byte 1"},
		{`{"a":}`, ErrSyntax, "/a"},
		{`[1,]`, ErrSyntax, ""},
		{`{"a":1,}`, ErrSyntax, ""},
		{`nul`, ErrSyntax, ""},
		{`01`, ErrTrailingData, ""},
		{`1.`, ErrSyntax, ""},
		{`.5`, ErrSyntax, ""},
		{`+1`, ErrSyntax, ""},
		{`NaN`, ErrSyntax, ""},
		{`'a'`, ErrSyntax, ""},
		{"\"a\nb\"", ErrSyntax, ""},
		{`"\x41"`, ErrSyntax, ""},
		{"\ufeff{}", ErrSyntax, ""},
		{`}`, ErrSyntax, ""},
		{`{1:2}`, ErrSyntax, ""},
		{`"\u12"`, ErrSyntax, ""},
		{`"\ud8`, ErrSyntax, ""},
		{`"\ud8zz"`, ErrSyntax, ""},
		{`"\ud1zz"`, ErrSyntax, ""},
		{`{"a":1 "b":2}`, ErrSyntax, ""},
		{`{} {}`, ErrTrailingData, "byte 2"},
		{`{}x`, ErrTrailingData, ""},
		{`1 2`, ErrTrailingData, ""},
		{"{}\x00", ErrTrailingData, ""},
		{`{"a":1,"a":1}`, ErrDuplicateName, "/a"},
		{`{"a":1,"\u0061":2}`, ErrDuplicateName, "/a"},
		{`{"x":[{"a":1,"b":2,"a":3}]}`, ErrDuplicateName, "/x/0/a"},
		{`{"":1,"":1}`, ErrDuplicateName, ""},
		{"\"\xff\"", ErrInvalidUTF8, "byte 1"},
		{"{\"a\xc3\":1}", ErrInvalidUTF8, ""},
		{"\"\xed\xa0\x80\"", ErrInvalidUTF8, ""},
		{"\"\xc0\x80\"", ErrInvalidUTF8, ""},
		{`"\ud800"`, ErrLoneSurrogate, "byte 1"},
		{`"\uDC00"`, ErrLoneSurrogate, ""},
		{`"a\ud800\ud800"`, ErrLoneSurrogate, "byte 2"},
		{`{"m":"\udfffx"}`, ErrLoneSurrogate, "/m"},
		{`{"\ud83dA":1}`, ErrLoneSurrogate, ""},
		{`"\ud83d\u0041"`, ErrLoneSurrogate, ""},
		{`1e400000000`, ErrNumberRange, ""},
		{`1e4294967297`, ErrNumberRange, ""},
		{`1e18446744073709551617`, ErrNumberRange, ""},
		{`1e-18446744073709551617`, ErrNumberRange, ""},
		{`{"a":[0,1e10000]}`, ErrNumberRange, "/a/1"},
		{`-1e-10000`, ErrNumberRange, ""},
		{strings.Repeat("9", 1025), ErrNumberRange, ""},
		{`10e9999`, ErrNumberRange, ""},
		{`0.1e-9999`, ErrNumberRange, ""},
	} {
		_, err := Sum(Version, []byte(tt.raw), nil)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("Sum(%.40q) error = %v, want %v with %q", tt.raw, err, tt.want, tt.text)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "canonjson: ") {
			t.Errorf("Sum(%.40q) error %q does not begin with the package", tt.raw, err)
		}
	}
}

func TestSum_K04_IgnoredMembersAreHeldToTheSameLimits(t *testing.T) {
	t.Parallel()
	rules := mustCompile(t, Spec{Ignore: []string{"/x"}})
	for raw, want := range map[string]error{
		`{"x":1e400000000}`:                            ErrNumberRange,
		`{"x":{"a":1,"a":2}}`:                          ErrDuplicateName,
		`{"x":` + nested(MaxDepth) + `}`:               ErrTooDeep,
		`{"x":"\ud800"}`:                               ErrLoneSurrogate,
		`{"x":"` + strings.Repeat("x", MaxSize) + `"}`: ErrTooLarge,
	} {
		if _, err := Sum(Version, []byte(raw), rules); !errors.Is(err, want) {
			t.Errorf("Sum(%.40s) error = %v, want %v", raw, err, want)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestSum_K04_DepthIsBounded(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]error{MaxDepth - 1: nil, MaxDepth: nil, MaxDepth + 1: ErrTooDeep, 9_999: ErrTooDeep, 10_001: ErrTooDeep, 1_000_000: ErrTooDeep} {
		if _, err := Sum(Version, []byte(nested(depth)), nil); !errors.Is(err, want) {
			t.Errorf("depth %d: error = %v, want %v", depth, err, want)
		}
		objects := strings.Repeat(`{"a":`, depth) + "0" + strings.Repeat("}", depth)
		if _, err := Sum(Version, []byte(objects), nil); len(objects) <= MaxSize && !errors.Is(err, want) {
			t.Errorf("depth %d of objects: error = %v, want %v", depth, err, want)
		}
	}
	side := "[" + strings.Repeat("[[]],", 1000) + "0]"
	if _, err := Sum(Version, []byte(side), nil); err != nil {
		t.Errorf("arrays side by side: %v", err)
	}
}

func TestSum_K04_SizeIsBounded(t *testing.T) {
	t.Parallel()
	fits := `"` + strings.Repeat("x", MaxSize-2) + `"`
	if _, err := Sum(Version, []byte(fits), nil); err != nil {
		t.Errorf("%d bytes: %v", len(fits), err)
	}
	for _, raw := range []string{fits + " ", strings.Repeat(" ", MaxSize+1)} {
		if _, err := Sum(Version, []byte(raw), nil); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes: error = %v, want ErrTooLarge", len(raw), err)
		}
	}
}

// Shapes that would take hours if anything were quadratic in the input, or if a number were expanded. The bound is on that,
// not on speed: no machine is slow enough to miss it otherwise.
func TestSum_K04_HostileInputIsQuick(t *testing.T) {
	t.Parallel()
	var names, escaped strings.Builder
	for i := 250_000; i > 0; i-- {
		fmt.Fprintf(&names, `"%07d":0,`, i)
		if i%2 == 0 {
			fmt.Fprintf(&escaped, `"\u0000%07d":0,`, i)
		}
	}
	deep := strings.Repeat(`{"b":[0,`, MaxDepth/2-1) + strings.Repeat("1,", 1_500_000) + "0" + strings.Repeat(`],"a":0}`, MaxDepth/2-1)
	for name, raw := range map[string]string{
		"huge exponent":       `[` + strings.Repeat(`1e400000000,`, 300_000) + `0]`,
		"long exponent":       `1e` + strings.Repeat("9", MaxSize-2),
		"long zero exponent":  `1e` + strings.Repeat("0", MaxSize-3) + "1",
		"long mantissa":       strings.Repeat("9", MaxSize),
		"long fraction":       "0." + strings.Repeat("0", MaxSize-3) + "1",
		"compensated":         "0." + strings.Repeat("0", 4_000_000) + "1e4000001",
		"many members":        `{` + names.String() + `"":0}`,
		"many escaped names":  `{` + escaped.String() + `"":0}`,
		"deep and unsorted":   deep,
		"backslashes":         `"` + strings.Repeat(`\\`, MaxSize/2-1) + `"`,
		"brackets":            strings.Repeat("[", MaxSize),
		"objects in an array": `[` + strings.Repeat(`{"b":1,"a":2},`, 250_000) + `0]`,
	} {
		start := time.Now()
		_, _ = Sum(Version, []byte(raw), nil)
		if took := time.Since(start); took > 3*time.Minute {
			t.Errorf("%s: %d bytes took %v", name, len(raw), took)
		}
	}
	if got := canonical("0."+strings.Repeat("0", 4_000_000)+"1e4000001", nil); got != "1" {
		t.Errorf("compensated exponent: got %.60s, want 1", got)
	}
}

func TestSum_K04_LeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	raw := []byte(typicalCall)
	rules := mustCompile(t, Spec{Ignore: []string{"/memo", "/lines/*/sku"}, Round: map[string]Unit{"/at": "1h", "/amount": "5"}})
	want, err := Sum(Version, raw, rules)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { // shared rules and shared bytes, for the race detector
			for range 50 {
				if got, err := Sum(Version, raw, rules); err != nil || got != want {
					t.Errorf("Sum = %x, %v, want %x", got, err, want)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(typicalCall, string(raw)); diff != "" {
		t.Error(diff)
	}
}

func TestSum_TypicalCallIsOneAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	raw := []byte(typicalCall)
	if n := testing.AllocsPerRun(200, func() { _, _ = Sum(Version, raw, nil) }); n > 2 {
		t.Errorf("%v allocations, want 1", n)
	}
}

func TestSum_K04_MemoryIsLinear(t *testing.T) { // not parallel: it reads the counters of the process
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rules := mustCompile(t, Spec{Ignore: []string{"/x/*/y"}, Round: map[string]Unit{"/*/*": "7"}})
	for name, raw := range map[string]string{
		"numbers":  `{"x":[` + strings.Repeat(`10,`, 100_000) + `0]}`,
		"objects":  `{"x":[` + strings.Repeat(`{"y":0,"a":0},`, 30_000) + `0]}`,
		"rounding": `{"x":[` + strings.Repeat(`1e39,`, 60_000) + `0]}`,
	} {
		bound := uint64(16 * len(raw))
		if name == "rounding" { // each of these is written out, and the output grows step by step
			bound = uint64(60 * len(raw))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := Sum(Version, []byte(raw), rules); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > bound {
			t.Errorf("%s: %d bytes allocated for %d bytes of input", name, got, len(raw))
		} else {
			t.Logf("%s: %d bytes allocated for %d bytes of input", name, got, len(raw))
		}
	}
}

func TestErrors_NameTheLimits(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		ErrTooLarge: fmt.Sprintf("%d MiB", MaxSize>>20), ErrTooDeep: fmt.Sprintf("more than %d ", MaxDepth),
		ErrNumberRange: fmt.Sprintf("(%d digits, exponent %d)", MaxDigits, MaxExponent),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name the limit, %s", err, want)
		}
	}
}

func TestErrors_NeverShowValues(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{"card":"4111-secret\ud800"}`, `{"card":secret}`, `{"card":"secret` + "\xff" + `"}`, `{"card":77e400000000}`, `{"card":"secret"`, `{"a":"secret"}secret`,
	} {
		_, err := Sum(Version, []byte(raw), nil)
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "invalid character") || strings.Contains(err.Error(), "77") {
			t.Errorf("Sum(%q) error = %v, want one without the value", raw, err)
		}
	}
	long := `{"` + strings.Repeat("é", 100_000) + `":1e10000}`
	if _, err := Sum(Version, []byte(long), nil); err == nil || len(err.Error()) > 500 {
		t.Errorf("a long name: error = %.1000v, want a short one", err)
	}
}
