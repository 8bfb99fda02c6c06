package canonjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// tagKey is the key of the struct tag that says what counts.
const tagKey = "idem"

// RulesFor reads the rules from the struct tags of an arguments type, and nil if it has none:
//
//	Memo string    `json:"memo" idem:"-"`         // ignored
//	At   time.Time `json:"at" idem:"round=1m"`    // timestamps, rounded down to a minute
//	Unix int64     `json:"unix" idem:"round=60"`  // numbers, rounded down to a multiple of 60
//
// Two units, one for timestamps and one for numbers, are separated by a comma. Tags count at any depth, through
// pointers, slices, arrays, maps and embedded structs, also in types that contain themselves. Members are named as
// encoding/json names them. A rounding tag on a slice, an array or a map applies to its elements; a "-" on an embedded
// struct applies to every field that it contributes.
//
// The error matches ErrBadRule and names the field: other text in a tag, a unit that does not fit the field's type, or
// a tag inside a type with its own MarshalJSON or MarshalText (or the reverse), whose members cannot be known from its
// fields. Give a Spec for those, and Merge it.
func RulesFor(t reflect.Type) (*Rules, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: RulesFor needs a type, such as reflect.TypeFor[Args]()", ErrBadRule)
	}
	r := tagReader{nodes: make(map[reflect.Type]*node)}
	root, err := r.node(t)
	if err != nil || !r.found {
		return nil, err
	}
	return &Rules{roots: []*edge{{to: root}}}, nil
}

// tagReader turns types into nodes. A type has one node, so a type that contains itself becomes a cycle.
type tagReader struct {
	nodes map[reflect.Type]*node
	found bool
}

// node returns what lies below a value of the type, nil if nothing can.
func (r *tagReader) node(t reflect.Type) (*node, error) {
	t = indirect(t)
	if n, ok := r.nodes[t]; ok {
		return n, nil
	}
	switch {
	case ownJSON(t):
		return nil, refuseTags(t, make(map[reflect.Type]bool))
	case t.Kind() == reflect.Struct:
		n := &node{named: make(map[string]*edge)}
		r.nodes[t] = n
		return n, r.structFields(n, t)
	case container(t):
		n := new(node)
		r.nodes[t] = n
		below, err := r.node(t.Elem())
		n.any = &edge{to: below}
		return n, err
	default:
		return nil, nil
	}
}

func (r *tagReader) structFields(n *node, t reflect.Type) error {
	if err := checkTags(t); err != nil {
		return err
	}
	for _, f := range jsonFields(t) {
		act, err := fieldAction(f)
		if err != nil {
			return badField(f.owner, f.StructField, err)
		}
		below, err := r.node(f.Type)
		if err != nil {
			return err
		}
		r.found = r.found || act != (action{})
		n.named[f.name] = edgeFor(f.Type, act, below)
	}
	return nil
}

// edgeFor puts a rounding on the elements when the field is a container.
func edgeFor(t reflect.Type, act action, below *node) *edge {
	t = indirect(t)
	if !container(t) || act.every == 0 && act.step == nil {
		return &edge{to: below, action: act}
	}
	// Elements that can be rounded have nothing below them, so the type's own node is not needed here.
	return &edge{to: &node{any: edgeFor(t.Elem(), act, nil)}}
}

// fieldAction reads the tag of a field and holds it to the field's type.
func fieldAction(f jsonField) (action, error) {
	act, err := parseTag(f.Tag.Get(tagKey))
	if err != nil {
		return act, err
	}
	if f.ignore { // by the tag of the struct that embeds it
		return action{ignore: true}, nil
	}
	elem := indirect(f.Type)
	for depth := 0; container(elem); depth++ {
		if depth == MaxDepth {
			break // a slice type that contains itself: not a timestamp, not a number
		}
		elem = indirect(elem.Elem())
	}
	free := elem.Kind() == reflect.Interface || ownJSON(elem)
	number := elem == reflect.TypeFor[json.Number]()
	switch {
	case act.every > 0 && !free && (elem.Kind() != reflect.String || number):
		return act, fmt.Errorf("a duration rounds timestamps and the field is a %v: use a time.Time, a string, or a plain number as the unit", f.Type)
	case act.step != nil && !free && !number && !numeric(elem.Kind()):
		return act, fmt.Errorf("a plain number rounds numbers and the field is a %v: use a number, or a duration as the unit", f.Type)
	case act.step != nil && f.quoted:
		return act, errors.New("the field is written as a string (json option \"string\"), which is not rounded: remove one of the two")
	}
	return act, nil
}

// parseTag reads a tag: nothing, "-", or units separated by commas.
func parseTag(text string) (action, error) {
	var act action
	switch text {
	case "":
		return act, nil
	case "-":
		return action{ignore: true}, nil
	}
	for option := range strings.SplitSeq(text, ",") {
		unit, ok := strings.CutPrefix(option, "round=")
		if !ok {
			return act, fmt.Errorf("%q is not known: write \"-\" or \"round=1m\" or \"round=60\"", option)
		}
		if err := act.round(Unit(unit)); err != nil {
			return act, err
		}
	}
	return act, nil
}

// checkTags reads the tags of all fields, so that a mistake is found also where the field is not in the JSON.
func checkTags(t reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		act, err := parseTag(f.Tag.Get(tagKey))
		if err == nil && embeds(f) && act != (action{}) && !act.ignore {
			err = errors.New("an embedded struct cannot be rounded: put the tag on its fields")
		}
		if err != nil {
			return badField(t, f, err)
		}
	}
	return nil
}

// refuseTags returns an error if there is a tag anywhere in the type.
func refuseTags(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return refuseTags(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if _, ok := f.Tag.Lookup(tagKey); ok {
				return badField(t, f, errors.New("its struct, or one around it, has its own JSON form, so its place in the JSON is not known: give a path instead"))
			}
			if err := refuseTags(f.Type, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

func badField(owner reflect.Type, f reflect.StructField, err error) error {
	return fmt.Errorf("%w for field %v.%s (%s:%q): %v", ErrBadRule, owner, f.Name, tagKey, f.Tag.Get(tagKey), err)
}

func indirect(t reflect.Type) reflect.Type {
	for range MaxDepth { // type P *P is legal
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return t
}

// container reports whether values of the type are JSON arrays, or objects with members of one type.
func container(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		bytes := t.Elem().Kind() == reflect.Uint8 && !ownJSON(t.Elem()) // a base64 string
		return !bytes && !ownJSON(t)
	case reflect.Array, reflect.Map:
		return !ownJSON(t)
	default:
		return false
	}
}

func numeric(k reflect.Kind) bool {
	return reflect.Int <= k && k <= reflect.Float64
}

// ownJSON reports whether the type, or a pointer to it, reads or writes its JSON itself.
func ownJSON(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
