package canonjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func addSeeds(f *testing.F, add func(raw string)) {
	for _, g := range goldens {
		add(g.raw)
	}
	for _, class := range classes {
		add(class[0])
	}
	for _, raw := range []string{
		typicalCall, ``, `{`, `{"a":1,"a":2}`, "\"\xff\"", `"\ud800"`, `{} {}`, `1e400000000`, nested(70), `{"k":"v"}`, `{"k":1}`, `{"a":[{"b":1},{"b":2}],"k":""}`,
		`{"at":"2026-11-29T12:30:59.5+01:00","n":-61.5,"memo":{"x":[1]}}`,
	} {
		add(raw)
	}
}

// FuzzCanonical: whatever is accepted keeps its value, as another decoder and exact decimals see it, and is its own
// canonical form; and rules never make a difference to what is accepted.
func FuzzCanonical(f *testing.F) {
	addSeeds(f, func(raw string) { f.Add([]byte(raw)) })
	rules, err := Compile(Spec{Ignore: []string{"/memo", "/*/*/b", "/0"}, Round: map[string]Unit{"/at": "1m", "/*": "7", "/*/*": "0.3"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		canon, err := Canonical(Version, raw, nil)
		ruled, ruledErr := Canonical(Version, raw, rules)
		if !bytes.Equal(before, raw) {
			t.Fatalf("the input %q became %q", before, raw)
		}
		if (err == nil) != (ruledErr == nil) {
			t.Fatalf("%q: error %v without rules, %v with them", raw, err, ruledErr)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "canonjson: ") {
				t.Fatalf("%q: error %q does not begin with the package", raw, err)
			}
			return
		}
		if !json.Valid(canon) || !json.Valid(ruled) {
			t.Fatalf("%q became %q and, with rules, %q: not JSON", raw, canon, ruled)
		}
		if again, err := Canonical(Version, canon, nil); err != nil || !bytes.Equal(again, canon) {
			t.Fatalf("%q became %q, then %q, %v", raw, canon, again, err)
		}
		if !sameValue(decode(raw), decode(canon)) {
			t.Fatalf("%q became another value, %q", raw, canon)
		}
	})
}

// FuzzDiff: bytes that are not what Fields wrote are an error at worst; what it did write differs exactly when the
// sums do.
func FuzzDiff(f *testing.F) {
	addSeeds(f, func(raw string) {
		stored, _ := Fields([]byte(raw), nil, []byte("salt"))
		f.Add(stored, []byte(raw), []byte(`{"a":[{"b":1},{"b":3}],"c":{}}`), []byte("salt"))
	})
	f.Fuzz(func(t *testing.T, stored, one, two, salt []byte) {
		if paths, err := Diff(stored, one, nil, salt); err == nil {
			checkPaths(t, paths)
		}
		sumOne, errOne := Sum(Version, one, nil)
		sumTwo, errTwo := Sum(Version, two, nil)
		if errOne != nil || errTwo != nil {
			return
		}
		written, err := Fields(one, nil, salt)
		if err != nil || len(written) > MaxFields {
			t.Fatalf("Fields(%q): %d bytes, %v", one, len(written), err)
		}
		paths, err := Diff(written, two, nil, salt)
		if err != nil {
			t.Fatalf("Diff of %x and %q: %v", written, two, err)
		}
		if (sumOne == sumTwo) != (len(paths) == 0) {
			t.Fatalf("from %q to %q: %q, but the sums are equal: %v", one, two, paths, sumOne == sumTwo)
		}
		checkPaths(t, paths)
		if same, err := Diff(written, one, nil, salt); err != nil || len(same) > 0 {
			t.Fatalf("%q differs from itself: %q, %v", one, same, err)
		}
	})
}

func checkPaths(t *testing.T, paths []string) {
	if len(paths) > MaxDiff {
		t.Fatalf("%d paths", len(paths))
	}
	for i, p := range paths {
		if i > 0 && paths[i-1] >= p {
			t.Fatalf("%q are not sorted", paths)
		}
		if p == "" || strings.HasSuffix(p, "…") {
			continue
		}
		tokens, err := parsePath(p)
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		for _, tok := range tokens {
			if tok.any {
				t.Fatalf("%q has a wildcard", p)
			}
		}
	}
}

// FuzzTakeString: the rest is the object without the member, in value and in bytes.
func FuzzTakeString(f *testing.F) {
	addSeeds(f, func(raw string) { f.Add([]byte(raw), "k") })
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		value, found, rest, err := TakeString(raw, name)
		if err != nil {
			return
		}
		before, ok := decode(raw).(map[string]any)
		after, okAfter := decode(rest).(map[string]any)
		if !ok || !okAfter {
			t.Fatalf("%q became %q: not objects", raw, rest)
		}
		old, had := before[name]
		if had != found || found && old != any(value) {
			t.Fatalf("%q has %v at %q, TakeString says %q, %v", raw, old, name, value, found)
		}
		delete(before, name)
		if !sameValue(before, after) {
			t.Fatalf("%q without %q became %q", raw, name, rest)
		}
		if _, again, _, err := TakeString(rest, name); again || err != nil {
			t.Fatalf("%q still has %q: %v", rest, name, err)
		}
		// What is left is what came, with one piece cut out.
		n := 0
		for n < len(rest) && raw[n] == rest[n] {
			n++
		}
		if !bytes.HasSuffix(raw, rest[n:]) {
			t.Fatalf("%q without %q became %q: other bytes have changed", raw, name, rest)
		}
	})
}

// FuzzCompile: a path is refused, or finds the member that it names.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"", "/", "/a", "a", "/*", "/~2", "/~0~1", "/a/*/b", "/~", "/\xff"} {
		f.Add(seed, "1m")
		f.Add(seed, "60")
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, path, unit string) {
		_, _ = Compile(Spec{Round: map[string]Unit{path: Unit(unit)}})
		rules, err := Compile(Spec{Ignore: []string{path}})
		if err != nil {
			return
		}
		tokens, err := parsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		raw, want := "1", ""
		for i := range tokens {
			name, err := json.Marshal(tokens[len(tokens)-1-i].name)
			if err != nil {
				t.Fatal(err)
			}
			raw = `{` + string(name) + `:` + raw + `}`
			if want = `{` + string(name) + `:` + want + `}`; i == 0 {
				want = `{}`
			}
		}
		canon, err := Canonical(Version, []byte(raw), rules)
		if err != nil || !sameValue(decode(canon), decode([]byte(want))) {
			t.Fatalf("ignoring %q: %s became %s, %v, want %s", path, raw, canon, err, want)
		}
	})
}
