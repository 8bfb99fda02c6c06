package mcpidem

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/txonce/txonce/internal/canonjson"
)

func TestPlainIntegers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1050.0}`:                         `{"a":1050}`,
		`{"a":1.05e3,"b":[-2.50E1,{"c":1e2}]}`: `{"a":1050,"b":[-25,{"c":100}]}`,
		`{"a":0.0,"b":-0.0,"c":0e5}`:           `{"a":0,"b":0,"c":0}`,
		`{"a":9007199254740993.0}`:             `{"a":9007199254740993}`,
		`{"a":18446744073709551615.0}`:         `{"a":18446744073709551615}`,
		`{"a":1.5,"b":1e-2,"c":1e30}`:          `{"a":1.5,"b":1e-2,"c":1e30}`,
		`{"a":"1.0 and e","b":"\u0041.e"}`:     `{"a":"1.0 and e","b":"\u0041.e"}`,
		`{"a":1}`:                              `{"a":1}`,
	} {
		if got := plainIntegers(json.RawMessage(in)); string(got) != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// FuzzPlainIntegers_K04: no value changes, and whatever is valid stays valid.
func FuzzPlainIntegers_K04(f *testing.F) {
	for _, seed := range []string{`{"a":1.0,"b\\":"\"1.0","c":[-0e1,true,null,1e-7]}`, `1.50e+2`, `"\\"`, `{"e":`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := plainIntegers(in)
		if !json.Valid(in) {
			return // only that it ends
		}
		before, err := canonjson.Canonical(canonjson.Version, in, nil)
		if err != nil {
			return
		}
		after, err := canonjson.Canonical(canonjson.Version, got, nil)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s became %s: %s, %v; want %s", in, got, after, err, before)
		}
	})
}
