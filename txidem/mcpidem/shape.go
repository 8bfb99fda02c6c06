package mcpidem

import (
	"math"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// shape is what most schemas are, those made of Go types among them: types, properties, items, and nothing else. A value that
// fits it needs no validator, which costs as much as all of the rest of a call; of one that does not, and under
// every other schema, the validator decides.
type shape struct {
	kinds    kinds // 0: any
	members  map[string]*shape
	required []string
	closed   bool   // no other members
	items    *shape // nil: any
}

// kinds is a set of JSON's types.
type kinds uint8

var kindsByName = map[string]kinds{
	"null": 1, "boolean": 2, "string": 4, "array": 8, "object": 16, "integer": 32, "number": 32 | 64,
}

// validator checks values against a schema.
type validator struct {
	resolved *jsonschema.Resolved
	shape    *shape // nil if the schema says more than a shape can
}

func (v validator) validate(value any) error {
	if v.shape != nil && v.shape.fits(value) {
		return nil
	}
	return v.resolved.Validate(value)
}

// shapeOf returns nil for a schema that says more than a shape can.
func shapeOf(s *jsonschema.Schema) *shape {
	rest := *s // what says nothing about values, and what a shape can say
	rest.Title, rest.Description, rest.Default, rest.Examples, rest.PropertyOrder = "", "", nil, nil, nil
	rest.Type, rest.Types, rest.Properties, rest.Required, rest.AdditionalProperties, rest.Items = "", nil, nil, nil, nil, nil
	if !reflect.ValueOf(rest).IsZero() {
		return nil
	}
	made := &shape{required: s.Required, members: make(map[string]*shape, len(s.Properties))}
	for _, name := range append([]string{s.Type}, s.Types...) {
		made.kinds |= kindsByName[name]
	}
	if other := s.AdditionalProperties; other != nil {
		if made.closed = isFalse(other); !made.closed {
			return nil
		}
	}
	for name, member := range s.Properties {
		if made.members[name] = shapeOf(member); made.members[name] == nil {
			return nil
		}
	}
	if s.Items != nil {
		if made.items = shapeOf(s.Items); made.items == nil {
			return nil
		}
	}
	return made
}

// isFalse reports whether s is the schema that no value fits.
func isFalse(s *jsonschema.Schema) bool {
	rest := *s
	rest.Not = nil
	return s.Not != nil && reflect.ValueOf(*s.Not).IsZero() && reflect.ValueOf(rest).IsZero()
}

// fits reports whether the value, as encoding/json reads one into an any, certainly fits.
func (s *shape) fits(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return s.allows(kindsByName["object"]) && s.fitsObject(v)
	case []any:
		if !s.allows(kindsByName["array"]) {
			return false
		}
		for _, item := range v {
			if s.items != nil && !s.items.fits(item) {
				return false
			}
		}
		return true
	case nil:
		return s.allows(kindsByName["null"])
	case bool:
		return s.allows(kindsByName["boolean"])
	case string:
		return s.allows(kindsByName["string"])
	case float64:
		return s.allows(64) || v == math.Trunc(v) && s.allows(kindsByName["integer"])
	}
	return false
}

func (s *shape) allows(k kinds) bool { return s.kinds == 0 || s.kinds&k != 0 }

func (s *shape) fitsObject(object map[string]any) bool {
	for name, value := range object {
		if member, ok := s.members[name]; ok && !member.fits(value) || !ok && s.closed {
			return false
		}
	}
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			return false
		}
	}
	return true
}
