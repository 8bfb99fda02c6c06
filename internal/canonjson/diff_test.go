package canonjson

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var testSalt = []byte("one salt for each record")

func mustFields(t *testing.T, raw string, rules *Rules) []byte {
	t.Helper()
	stored, err := Fields([]byte(raw), rules, testSalt)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) > MaxFields {
		t.Fatalf("Fields returned %d bytes, more than %d", len(stored), MaxFields)
	}
	return stored
}

func TestDiff_K07_NamesThePathsThatDiffer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ old, new, want string }{
		{`{"a":1,"b":[1,{"c":2}]}`, ` { "b":[1.0,{"c":2e0}], "a":10e-1}`, ``},
		{`{"a":1}`, `{"a":2}`, `/a`},
		{`{"a":1}`, `{"a":"1"}`, `/a`},
		{`{"a":1}`, `{"a":null}`, `/a`},
		{`{"a":1}`, `{}`, `/a`},
		{`{}`, `{"a":1}`, ``}, // below
		{`{"a":1,"b":2}`, `{"b":2}`, `/a`},
		{`{"b":2}`, `{"a":null,"b":2}`, `/a`},
		{`{"a":1,"c":1}`, `{"b":1,"d":1}`, `/a /b /c /d`},
		{`{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":2}}}`, `/a/b/c`},
		{`{"a":{"b":1}}`, `{"a":{"b":1,"c":{"d":1}}}`, `/a/c`},
		{`{"a":{"b":1}}`, `{"a":5}`, `/a`},
		{`{"a":5}`, `{"a":{"b":1}}`, `/a`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `/a/b`},
		{`{"a":{"0":1}}`, `{"a":[1]}`, `/a`},
		{`{"a":[1]}`, `{"a":{"0":1}}`, `/a`},
		{`{"a":[]}`, `{"a":{}}`, `/a`},
		{`{"a":[]}`, `{"a":[1]}`, `/a`},
		{`{"a":[1,2,3]}`, `{"a":[1,9,3]}`, `/a/1`},
		{`{"a":[1,2]}`, `{"a":[1,2,3]}`, `/a/2`},
		{`{"a":[1,2,3]}`, `{"a":[1]}`, `/a/1 /a/2`},
		{`{"a":[{"x":1},{"x":2}]}`, `{"a":[{"x":1},{"x":3}]}`, `/a/1/x`},
		{`[1,2]`, `[2,1]`, `/0 /1`},
		{`{"a/b":1,"c~d":1,"*":1,"":1}`, `{"a/b":2,"c~d":2,"*":2,"":2}`, `/ /a~1b /c~0d /~2`},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, `/n`},
		{`{"s":"caf\u00e9"}`, `{"s":"cafe\u0301"}`, `/s`},
		{`{"z":1,"a":1}`, `{"a":2,"z":2}`, `/a /z`},
		{`{"a\"":1,"b":1}`, `{"a\"":2,"b":1}`, `/a"`},
		{`{"a\n":1,"a!":2}`, `{"a!":2,"a\n":3}`, "/a\n"},
	} {
		stored := mustFields(t, tt.old, nil)
		got, err := Diff(stored, []byte(tt.new), nil, testSalt)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(tt.want)
		if tt.new == `{"a":1}` && tt.old == `{}` {
			want = []string{""} // an empty object is a value of its own
		} else if strings.Contains(tt.want, "\n") {
			want = []string{tt.want}
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %s to %s: %q, want %q", tt.old, tt.new, got, want)
		}
	}
	for old, new := range map[string]string{`1`: `2`, `"a"`: `{"a":1}`, `{"a":1}`: `[1]`, `null`: `false`} {
		if got, err := Diff(mustFields(t, old, nil), []byte(new), nil, testSalt); err != nil || !slices.Equal(got, []string{""}) {
			t.Errorf("from %s to %s: %q, %v, want the empty path", old, new, got, err)
		}
	}
}

func TestDiff_K07_OnlyWhatCountsDiffers(t *testing.T) {
	t.Parallel()
	rules := mustCompile(t, Spec{Ignore: []string{"/memo"}, Round: map[string]Unit{"/at": "1m"}})
	stored := mustFields(t, `{"memo":"x","at":"2026-11-29T12:30:10Z","n":1}`, rules)
	for raw, want := range map[string]string{
		`{"memo":"y","at":"2026-11-29T13:30:50+01:00","n":1}`: "", `{"at":"2026-11-29T12:31:00Z","n":1}`: "/at", `{"at":"2026-11-29T12:30:00Z","n":2,"memo":3}`: "/n",
	} {
		if got, err := Diff(stored, []byte(raw), rules, testSalt); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, err, want)
		}
	}
	if bytes.Contains(stored, []byte("memo")) {
		t.Error("an ignored member is stored")
	}
}

func TestFields_K07_HoldsNoValuesAndNoEqualHashes(t *testing.T) {
	t.Parallel()
	raw := `{"card":"4111111111111111","other":"4111111111111111"}`
	stored := mustFields(t, raw, nil)
	if bytes.Contains(stored, []byte("4111")) {
		t.Error("a value is stored")
	}
	hash := func(stored []byte, name string) []byte {
		_, rest, _ := bytes.Cut(stored, []byte(name+"v"))
		return rest[:hashSize]
	}
	if bytes.Equal(hash(stored, "card"), hash(stored, "other")) {
		t.Error("two paths show that their values are equal")
	}
	otherSalt := bytes.ToUpper(testSalt)
	salted, err := Fields([]byte(raw), nil, otherSalt)
	if err != nil || bytes.Equal(hash(stored, "card"), hash(salted, "card")) {
		t.Errorf("two records show that their values are equal (%v)", err)
	}
	if got, err := Diff(stored, []byte(raw), nil, otherSalt); err != nil || len(got) != 2 {
		t.Errorf("with another salt: %q, %v, want both paths", got, err)
	}
	// The parts of what is hashed cannot be shifted into one another.
	h1, h2 := newHasher([]byte("ab")), newHasher([]byte("a"))
	if h1.hash([]byte("c"), []byte("d")) == h2.hash([]byte("bc"), []byte("d")) || h1.hash([]byte("c"), []byte("d")) == h1.hash([]byte("cd"), nil) {
		t.Error("salt, path and value are not told apart")
	}
}

func TestFields_K07_IsBoundedAndCoarser(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return `[` + strings.Repeat(`1,`, n-1) + `1]` }
	members := func(n, size int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%0*d":1,`, size, i)
		}
		return `{` + strings.TrimSuffix(b.String(), ",") + `}`
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"64 elements fit", list(64), list(63) + " ", "/63"},
		{"65 do not", list(65), list(64), ""},
		{"a long list costs only its own detail", `{"a":{"x":1},"l":` + list(100) + `}`, `{"a":{"x":2},"l":` + list(101) + `}`, "/a/x /l"},
		{"breadth first", `{"a":{"b":` + list(40) + `,"c":1},"d":{"e":` + list(40) + `,"f":1}}`, `{"a":{"b":` + list(39) + `,"c":1},"d":{"e":` + list(39) + `,"f":2}}`, "/a/b/39 /d/e /d/f"},
		{"short names fit", members(50, 60), strings.Replace(members(50, 60), `:1}`, `:2}`, 1), "/" + fmt.Sprintf("%060d", 49)},
		{"long names do not", members(50, 100), members(49, 100), ""},
		{"one huge name", `{"a":{"` + strings.Repeat("n", 5000) + `":1},"b":1}`, `{"a":{"` + strings.Repeat("n", 5000) + `":2},"b":1}`, "/a"},
		{"64 deep", strings.Repeat(`{"a":`, 63) + `1` + strings.Repeat(`}`, 63), strings.Repeat(`{"a":`, 63) + `2` + strings.Repeat(`}`, 63), "deep"},
	} {
		stored := mustFields(t, tt.old, nil)
		got, err := Diff(stored, []byte(tt.new), nil, testSalt)
		want := strings.Split(tt.want, " ")
		if tt.want == "deep" { // a bound on the effort: the lower levels are hashed as one
			if err != nil || len(got) != 1 || len(got[0]) < len("/a")*10 || len(got[0]) > len("/a")*40 {
				t.Errorf("%s: %q, %v", tt.name, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %.300q, %v, want %q", tt.name, got, err, want)
		}
	}
}

func TestDiff_K07_ReportIsBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString(`{"a":1`)
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"m%06d":1`, 999_999-i)
	}
	many.WriteString(`}`)
	got, err := Diff(mustFields(t, `{"a":2,"z":3}`, nil), []byte(many.String()), nil, testSalt)
	if err != nil || len(got) != MaxDiff || got[0] != "/a" || got[1] != "/m900000" || got[15] != "/m900014" {
		t.Errorf("%d paths, %q, %v, want the first %d", len(got), got, err, MaxDiff)
	}
	long := `{"a":1,"` + strings.Repeat("é", 10_000) + `":1}`
	got, err = Diff(mustFields(t, `{"a":1}`, nil), []byte(long), nil, testSalt)
	if err != nil || len(got) != 1 || len(got[0]) > maxPath+len("…") || strings.ToValidUTF8(got[0], "?") != got[0] {
		t.Errorf("a path of %d bytes, %v", len(got[0]), err)
	}
}

func TestFields_K09_GoldenEncoding(t *testing.T) {
	t.Parallel()
	const raw, want = `{"b":[1.0,{}],"a":"x"}`, "01016f0201617694c73beb0162610276f3c488e076869df611"
	got := mustFields(t, raw, nil)
	if hex.EncodeToString(got) != want {
		t.Errorf("Fields(%s) = %x, want %s: the encoding is stored; undo this, or bump fieldsVersion and read both", raw, got, want)
	}
}

func TestDiff_K09_StoredBytesAreJudgedByTheirVersion(t *testing.T) {
	t.Parallel()
	stored := mustFields(t, `{"a":1}`, nil)
	for i := range 2 {
		other := bytes.Clone(stored)
		other[i] = 99
		if _, err := Diff(other, []byte(`{"a":1}`), nil, testSalt); !errors.Is(err, ErrUnknownVersion) {
			t.Errorf("version byte %d changed: error = %v, want ErrUnknownVersion", i, err)
		}
	}
	if _, err := Diff(stored, []byte(`{"a":1,}`), nil, testSalt); !errors.Is(err, ErrSyntax) {
		t.Errorf("bad input: error = %v, want ErrSyntax", err)
	}
	if _, err := Fields([]byte(`{"a":1,}`), nil, testSalt); !errors.Is(err, ErrSyntax) {
		t.Errorf("bad input: error = %v, want ErrSyntax", err)
	}
}

func TestDiff_K07_CorruptStoredBytesAreAnError(t *testing.T) {
	t.Parallel()
	stored := mustFields(t, `{"b":[1,{"c":2}],"a":"x"}`, nil)
	for n := range stored {
		if _, err := Diff(stored[:n], []byte(`{}`), nil, testSalt); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes: error = %v, want ErrCorrupt", n, err)
		}
	}
	head := []byte{fieldsVersion, Version}
	huge := binary.AppendUvarint([]byte{arrayNode}, 1<<62)
	deep := bytes.Repeat([]byte{arrayNode, 1}, MaxDepth+1)
	for name, body := range map[string][]byte{
		"trailing":        append(bytes.Clone(stored[2:]), 0),
		"unknown kind":    {'x', 1, 2, 3, 4},
		"unknown list":    append([]byte{'x', 1}, "v1234"...),
		"empty object":    {objectNode, 0},
		"empty array":     {arrayNode, 0},
		"huge count":      huge,
		"overlong varint": append([]byte{arrayNode}, bytes.Repeat([]byte{0xff}, 11)...),
		"name too long":   {objectNode, 1, 200, 'a'},
		"name not UTF-8":  append([]byte{objectNode, 1, 1, 0xff}, "v1234"...),
		"names unsorted":  append([]byte{objectNode, 2, 1, 'b'}, "v1234\x01av1234"...),
		"names twice":     append([]byte{objectNode, 2, 1, 'a'}, "v1234\x01av1234"...),
		"too deep":        append(deep, "v1234"...),
		"too long":        slices.Concat([]byte{objectNode, 1, 0x80, 0x20}, bytes.Repeat([]byte("n"), MaxFields), []byte("v1234")),
		"huge name":       binary.AppendUvarint([]byte{objectNode, 1}, 1<<63),
	} {
		if _, err := Diff(append(bytes.Clone(head), body...), []byte(`{}`), nil, testSalt); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: error = %v, want ErrCorrupt", name, err)
		}
	}
	if diff := cmp.Diff(stored, mustFields(t, `{"a":"x","b":[1,{"c":2}]}`, nil)); diff != "" {
		t.Errorf("Fields is not deterministic:\n%s", diff)
	}
}
