package canonjson

import (
	"reflect"
	"strings"
	"unicode"
)

// jsonField is a struct field as encoding/json sees it.
type jsonField struct {
	reflect.StructField
	owner  reflect.Type // the struct that declares it
	name   string       // of the member
	tagged bool         // the name is from a tag
	quoted bool         // written as a string
	ignore bool         // an embedding field carries idem:"-"
	depth  int          // embedded structs around it
}

// level is an embedded struct that is still to be read.
type level struct {
	t      reflect.Type
	ignore bool
	twice  bool // embedded more than once at this depth: its names cancel each other
}

// jsonFields lists the members of a struct by the rules of encoding/json: of several fields with one name the
// shallowest wins, at one depth the one with a tag, and if that leaves two there is no such member.
func jsonFields(t reflect.Type) []jsonField {
	byName := make(map[string][]jsonField)
	var names []string
	seen := make(map[reflect.Type]bool)
	for depth, levels := 0, []level{{t: t}}; len(levels) > 0; depth++ {
		var deeper []level
		for _, l := range levels {
			if seen[l.t] {
				continue
			}
			seen[l.t] = true
			fields, embedded := l.read(depth)
			deeper = addLevels(deeper, embedded)
			for _, f := range fields {
				if byName[f.name] == nil {
					names = append(names, f.name)
				}
				byName[f.name] = append(byName[f.name], f)
			}
		}
		levels = deeper
	}
	var members []jsonField
	for _, name := range names {
		if f, ok := dominant(byName[name]); ok {
			members = append(members, f)
		}
	}
	return members
}

// read returns the fields that the struct declares and the structs that it embeds without a name.
func (l level) read(depth int) (fields []jsonField, embedded []level) {
	for i := range l.t.NumField() {
		sf := l.t.Field(i)
		tag := sf.Tag.Get("json")
		if tag == "-" || !visible(sf) {
			continue
		}
		ignore := l.ignore || sf.Tag.Get(tagKey) == "-"
		if embeds(sf) {
			embedded = append(embedded, level{t: embeddedType(sf), ignore: ignore})
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		f := jsonField{StructField: sf, owner: l.t, name: name, tagged: true, ignore: ignore, depth: depth}
		if !validName(name) {
			f.name, f.tagged = sf.Name, false
		}
		f.quoted = strings.Contains(","+options+",", ",string,")
		fields = append(fields, f)
		if l.twice {
			fields = append(fields, f)
		}
	}
	return fields, embedded
}

// addLevels adds embedded structs, each type once.
func addLevels(levels, more []level) []level {
next:
	for _, l := range more {
		for i := range levels {
			if levels[i].t == l.t {
				levels[i].twice = true
				continue next
			}
		}
		levels = append(levels, l)
	}
	return levels
}

// dominant picks the field that owns a name; candidates come shallowest first.
func dominant(candidates []jsonField) (jsonField, bool) {
	var best []jsonField
	for _, f := range candidates {
		switch {
		case len(best) == 0, f.depth == best[0].depth && f.tagged && !best[0].tagged:
			best = []jsonField{f}
		case f.depth == best[0].depth && f.tagged == best[0].tagged:
			best = append(best, f)
		}
	}
	return best[0], len(best) == 1
}

// visible reports whether encoding/json looks at the field: an unexported one only if it embeds a struct.
func visible(f reflect.StructField) bool {
	return f.IsExported() || f.Anonymous && embeddedType(f).Kind() == reflect.Struct
}

// embeds reports whether the members of the field become members of its struct.
func embeds(f reflect.StructField) bool {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return f.Anonymous && !validName(name) && embeddedType(f).Kind() == reflect.Struct
}

func embeddedType(f reflect.StructField) reflect.Type {
	if f.Type.Kind() == reflect.Pointer {
		return f.Type.Elem()
	}
	return f.Type
}

// validName reports whether encoding/json takes a tag's text as a name; if not, the field keeps its own.
func validName(name string) bool {
	for _, r := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}
