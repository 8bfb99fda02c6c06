package mcpidem

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

type nested struct {
	N    int       `json:"n"`
	Next *nested2  `json:"next,omitempty"`
	List []nested2 `json:"list"`
	At   time.Time `json:"at"`
}

type nested2 struct {
	B bool    `json:"b,omitempty"`
	F float64 `json:"f,omitempty"`
	S string  `json:"s,omitempty"`
	A any     `json:"a,omitempty"`
}

// TestShape_M03_AgreesWithTheValidator: what a shape lets pass, the validator would; and where it has a say it lets all of that pass.
func TestShape_M03_AgreesWithTheValidator(t *testing.T) {
	t.Parallel()
	hand := func(text string) *jsonschema.Schema {
		s := &jsonschema.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	typed := func(v any) *jsonschema.Schema {
		s, err := jsonschema.ForType(reflect.TypeOf(v), &jsonschema.ForOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for label, c := range map[string]struct {
		schema *jsonschema.Schema
		shaped bool
	}{
		"a struct":       {typed(nested2{}), true},
		"nested structs": {typed(nested{}), true},
		"twenty fields":  {typed(order{}), true},
		"an open object": {hand(`{"type":"object","properties":{"n":{"type":"integer"},"s":{"type":["string","null"]}},"required":["n"]}`), true},
		"numbers":        {hand(`{"type":"array","items":{"type":"number"}}`), true},
		"anything":       {hand(`{}`), true},
		"nothing":        {hand(`false`), false},
		"a bound":        {hand(`{"type":"object","properties":{"n":{"type":"integer","maximum":3}}}`), false},
		"an enum":        {hand(`{"enum":["a"]}`), false},
		"a map":          {hand(`{"type":"object","additionalProperties":{"type":"string"}}`), false},
		"a pattern":      {hand(`{"type":"array","items":{"type":"string","pattern":"^a"}}`), false},
		"a reference":    {hand(`{"$defs":{"x":{"type":"string"}},"properties":{"n":{"$ref":"#/$defs/x"}}}`), false},
		"a conjunction":  {hand(`{"allOf":[{"required":["n"]}]}`), false},
	} {
		s := shapeOf(c.schema)
		if (s != nil) != c.shaped {
			t.Errorf("%s: it has a shape: %v", label, s != nil)
		}
		if s == nil {
			continue
		}
		resolved, err := c.schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			value := anyJSON(3).Draw(t, "value")
			if err := resolved.Validate(value); s.fits(value) != (err == nil) {
				t.Errorf("%s: %#v fits: %v; the validator says %v", label, value, s.fits(value), err)
			}
		})
	}
}

// anyJSON draws values whose members have the names that the schemas know.
func anyJSON(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), toAny), rapid.Map(rapid.SampledFrom([]string{"", "a", "b"}), toAny),
		rapid.Map(rapid.SampledFrom([]float64{0, 1, -3, 1.5, 1e300, 9007199254740993, 1e-7}), toAny),
	)
	if depth == 0 {
		return leaf
	}
	names := rapid.SampledFrom([]string{"n", "s", "b", "f", "a", "list", "tags", "cents", "x"})
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(anyJSON(depth-1), 0, 3), toAny),
		rapid.Map(rapid.MapOfN(names, anyJSON(depth-1), 0, 4), toAny))
}

func toAny[T any](v T) any { return v }
