package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// field is one argument, as JSON.
type field struct {
	name  string
	value string
}

func text(name, value string) field {
	quoted, _ := json.Marshal(value) // a string: it cannot fail
	return field{name, string(quoted)}
}

func number(name string, value int) field { return field{name, strconv.Itoa(value)} }

// worded writes the arguments in one of many ways that mean the same: the order of the keys, the spaces and the
// spelling of numbers and strings change, as they do when a model writes its call anew.
func worded(fields []field, variant int) json.RawMessage {
	if variant == 0 {
		return join(fields, "")
	}
	turned := make([]field, len(fields))
	for i, f := range fields {
		if variant%2 == 1 {
			f.value = respelled(f.value)
		}
		turned[(i+variant)%len(fields)] = f
	}
	return join(turned, " ")
}

func join(fields []field, space string) json.RawMessage {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = fmt.Sprintf("%q:%s%s", f.name, space, f.value)
	}
	return json.RawMessage("{" + strings.Join(parts, ","+space) + "}")
}

// respelled writes 1050 as 1050.0, and the first letter of a string as its code point.
func respelled(value string) string {
	switch {
	case value[0] != '"':
		return value + ".0"
	case len(value) < 3 || value[1] == '\\' || value[1] >= 0x80:
		return value
	}
	return fmt.Sprintf(`"\u%04x%s`, value[1], value[2:])
}
