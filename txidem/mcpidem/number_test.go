package mcpidem

import (
	"encoding/json"
	"testing"
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
		got, err := plainIntegers(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
	if _, err := plainIntegers(json.RawMessage(`{"e":`)); err == nil {
		t.Error("half an object is taken")
	}
}
