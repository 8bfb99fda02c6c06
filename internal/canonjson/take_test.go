package canonjson

import (
	"errors"
	"strings"
	"testing"
)

func TestTakeString_K02_TakesTheReservedArgument(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		raw, value string
		found      bool
		rest       string
	}{
		{`{}`, "", false, `{}`},
		{` {"a" : 1 } `, "", false, ` {"a" : 1 } `},
		{`{"a":{"k":"x"},"K":"y"}`, "", false, `{"a":{"k":"x"},"K":"y"}`},
		{`{"k":null}`, "", false, `{}`},
		{`{"a":1,"k":null}`, "", false, `{"a":1}`},
		{`{"k":"v"}`, "v", true, `{}`},
		{` { "k" : "v" } `, "v", true, ` { } `},
		{`{"k":"v","a":1.0}`, "v", true, `{"a":1.0}`},
		{"{\n \"k\": \"v\" ,\n \"a\": 1.0\n}", "v", true, "{\n \"a\": 1.0\n}"},
		{`{"a":1.0,"k":"v"}`, "v", true, `{"a":1.0}`},
		{`{"a": 1e2 , "k": "v" , "b": [ 1 ] }`, "v", true, `{"a": 1e2 , "b": [ 1 ] }`},
		{`{"\u006b":"\u0076\n","a\u0062":"\/"}`, "v\n", true, `{"a\u0062":"\/"}`},
		{`{"a":"k","k":"a"}`, "a", true, `{"a":"k"}`},
		{`{"k":"","b":{"k":"inner"}}`, "", true, `{"b":{"k":"inner"}}`},
		{`{"k":"a,b","c":","}`, "a,b", true, `{"c":","}`},
		{`{"a":1e400000000,"k":"v"}`, "v", true, `{"a":1e400000000}`}, // Sum's business
	} {
		value, found, rest, err := TakeString([]byte(tt.raw), "k")
		if err != nil || value != tt.value || found != tt.found || string(rest) != tt.rest {
			t.Errorf("TakeString(%s) = %q, %v, %s, %v, want %q, %v, %s", tt.raw, value, found, rest, err, tt.value, tt.found, tt.rest)
		}
	}
}

func TestTakeString_K02_ErrorsAreNamed(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]error{
		``: ErrEmpty, ` `: ErrEmpty, `[]`: ErrNotObject, `"k"`: ErrNotObject, `null`: ErrNotObject, `7`: ErrNotObject, `["k":"v"]`: ErrNotObject,
		`{"k":7}`: ErrNotString, `{"k":["v"]}`: ErrNotString, `{"k":{"k":"v"},"a":1}`: ErrNotString, `{"k":true}`: ErrNotString,
		`{"k":"v"`: ErrSyntax, `{"k":"v",}`: ErrSyntax, `{"k"}`: ErrSyntax, `{"k":"v" "a":1}`: ErrSyntax, `{"k":"v","a":[1,}`: ErrSyntax, `{1:2}`: ErrSyntax, `{"k":"v"]`: ErrSyntax,
		`{"k":"v"} {}`: ErrTrailingData, `{} x`: ErrTrailingData, `{"k":"v","k":"w"}`: ErrDuplicateName, `{"k":"v","\u006b":"w"}`: ErrDuplicateName,
		`{"k":"v","a":{"b":1,"b":2}}`: ErrDuplicateName, `{"k":"\ud800"}`: ErrLoneSurrogate, "{\"k\":\"v\",\"a\":\"\xff\"}": ErrInvalidUTF8,
		`{"k":"v","a":` + nested(20_000) + `}`: ErrTooDeep, `{"k":"` + strings.Repeat("v", MaxSize) + `"}`: ErrTooLarge,
	} {
		value, found, rest, err := TakeString([]byte(raw), "k")
		if !errors.Is(err, want) || value != "" || found || rest != nil {
			t.Errorf("TakeString(%.40q) = %q, %v, %.40s, %v, want %v", raw, value, found, rest, err, want)
		}
	}
	if _, _, _, err := TakeString([]byte(`{"a/b":1}`), "a/b"); err == nil || !strings.Contains(err.Error(), "/a~1b") {
		t.Errorf("the error %v does not name the member", err)
	}
}

func TestTakeString_K03_InputIsNotTouched(t *testing.T) {
	t.Parallel()
	const text = `{"k":"v","a":1,"b":2}`
	raw := []byte(text)
	_, _, rest, err := TakeString(raw, "k")
	if err != nil {
		t.Fatal(err)
	}
	rest = append(rest[:1], "xxxxxxxxxxxxxxxxxxxxxxxxxxxx"...)
	if string(raw) != text {
		t.Errorf("the input became %s", raw)
	}
	_ = rest
}
