package mcpidem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// keyArgument is the reserved argument (A: "expose an optional idempotency_key string on write tools").
const keyArgument = "idempotency_key"

// errArguments marks arguments that do not fit the tool. It never leaves the package.
var errArguments = errors.New("validating \"arguments\"")

// input is what a tool takes.
type input struct {
	validator                    // without the reserved argument
	published *jsonschema.Schema // with it
	defaults  bool               // the schema may have some
}

// inputFor is for the given type, or, where that is nil, for the tool's schema alone.
func inputFor(t *mcp.Tool, key KeyArgument, unprotected bool, in reflect.Type) (*input, error) {
	schema, err := schemaFor(t.InputSchema, in)
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	if in == reflect.TypeFor[any]() && t.InputSchema == nil {
		schema = &jsonschema.Schema{Type: "object"}
	}
	if schema.Type != "object" {
		return nil, fmt.Errorf(`input schema: its type must be "object"`)
	}
	_, taken := schema.Properties[keyArgument]
	if taken = taken || slices.Contains(schema.Required, keyArgument); taken && key != KeyOff {
		return nil, fmt.Errorf("the argument %s is reserved; remove it from the input (the adapter adds one of its own, and the handler finds the key in toolcall.FromContext), "+
			"or set ToolConfig.Key to KeyOff", keyArgument)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, fmt.Errorf("input schema: %w", err)
	}
	return &input{
		validator: validator{resolved, shapeOf(schema)},
		published: withKeyArgument(schema, key, unprotected),
		defaults:  bytes.Contains(text, []byte(`"default":`)),
	}, nil
}

// withKeyArgument returns the schema that clients see. The given one stays as it is. Also where a key is required, the
// argument is not: the harness may have given one elsewhere, and a client that checks arguments must let that pass.
func withKeyArgument(schema *jsonschema.Schema, key KeyArgument, unprotected bool) *jsonschema.Schema {
	if key == KeyOff {
		return schema
	}
	published := schema.CloneSchemas()
	if published.Properties == nil {
		published.Properties = make(map[string]*jsonschema.Schema)
	}
	shortest, longest := 1, 255
	published.Properties[keyArgument] = &jsonschema.Schema{
		Type: "string", MinLength: &shortest, MaxLength: &longest, Description: keyArgumentText(key, unprotected),
	}
	if len(published.PropertyOrder) > 0 {
		published.PropertyOrder = append(slices.Clone(published.PropertyOrder), keyArgument)
	}
	return published
}

// decode checks the arguments and reads them.
func (in *input) decode(args json.RawMessage, target any) error {
	args, err := in.normal(args)
	if err != nil {
		return err
	}
	if err := unmarshalExactNames(args, target); err != nil {
		return fmt.Errorf("%w: %w", errArguments, err)
	}
	return nil
}

// normal checks the arguments and fills in the schema's defaults. What was given is taken from the bytes that were
// given, for the validator's numbers are float64 and lose digits above 2^53.
func (in *input) normal(args json.RawMessage) (json.RawMessage, error) {
	values := map[string]any{}
	err := jsonv2.Unmarshal(args, &values)
	if err == nil && in.defaults {
		err = in.resolved.ApplyDefaults(&values)
	}
	if err == nil {
		err = in.validate(values)
	}
	if err == nil && in.defaults {
		args, err = withDefaults(args, values)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArguments, err)
	}
	return plainIntegers(args), nil
}

// withDefaults adds to the given JSON what only the filled one has. What was given keeps its spelling, and so its digits.
func withDefaults(given json.RawMessage, filled any) (json.RawMessage, error) {
	object, ok := filled.(map[string]any)
	var members map[string]json.RawMessage
	if !ok || json.Unmarshal(given, &members) != nil || members == nil {
		return given, nil
	}
	for name, value := range object {
		var err error
		if member, ok := members[name]; ok {
			members[name], err = withDefaults(member, value)
		} else {
			members[name], err = marshal(value)
		}
		if err != nil {
			return nil, err
		}
	}
	return marshal(members)
}

// unmarshalExactNames is encoding/json's Unmarshal, but for one thing: "CENTS" is not taken for "cents", as the
// schema's validator does not take it either.
func unmarshalExactNames(data []byte, target any) error {
	return jsonv2.Unmarshal(data, target, jsonv1.DefaultOptionsV1(), jsonv2.MatchCaseInsensitiveNames(false))
}

// output is what a tool answers.
type output struct {
	schema *jsonschema.Schema // nil if the tool promises nothing
	validator
}

func outputFor(t *mcp.Tool, out reflect.Type) (*output, error) {
	if t.OutputSchema == nil && (out == nil || out == reflect.TypeFor[any]()) {
		return &output{}, nil
	}
	schema, err := schemaFor(t.OutputSchema, out)
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, fmt.Errorf("output schema: %w", err)
	}
	return &output{schema, validator{resolved, shapeOf(schema)}}, nil
}

// encode makes the answer's bytes and checks them, while there is a transaction to roll back: the SDK would check
// after the commit (M03).
func (o *output) encode(out any) (json.RawMessage, error) {
	switch v := reflect.ValueOf(out); { // as the SDK does: never null for an object
	case v.Kind() == reflect.Pointer && v.IsNil():
		out = reflect.New(v.Type().Elem()).Interface()
	case v.Kind() == reflect.Map && v.IsNil():
		out = reflect.MakeMap(v.Type()).Interface()
	}
	raw, err := marshal(out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", txidem.ErrAnswer, err)
	case bytes.HasPrefix(raw, []byte(fullForm)): // it would be read as another result
		return nil, fmt.Errorf("%w: the name %s is reserved", txidem.ErrAnswer, fullForm[1:len(fullForm)-1])
	case depth(raw) > deepestAnswer:
		return nil, fmt.Errorf("%w: it is nested more than %d deep, and clients close the connection over that; flatten it", txidem.ErrAnswer, deepestAnswer)
	case o.resolved == nil:
		return raw, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("%w: %w", txidem.ErrAnswer, err)
	}
	if err := o.validate(value); err != nil {
		return nil, fmt.Errorf("%w: it does not fit the tool's output schema: %w", txidem.ErrAnswer, err)
	}
	return raw, nil
}

// deepestAnswer leaves room for what the protocol puts around an answer: the SDK reads no JSON that is nested more than 1000 deep.
const deepestAnswer = 900

// depth is how deep valid JSON is nested.
func depth(text []byte) (deepest int) {
	for i, open := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = afterString(text, i) - 1
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// schemaFor returns the given schema, or the one of the type.
func schemaFor(given any, t reflect.Type) (*jsonschema.Schema, error) {
	switch given := given.(type) {
	case nil:
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return jsonschema.ForType(t, &jsonschema.ForOptions{})
	case *jsonschema.Schema:
		if given == nil {
			return nil, errors.New("it is nil")
		}
		return given, nil
	default: // anything that marshals to a schema
		raw, err := json.Marshal(given)
		if err != nil {
			return nil, err
		}
		schema := &jsonschema.Schema{}
		if err := json.Unmarshal(raw, schema); err != nil {
			return nil, err
		}
		return schema, nil
	}
}
