package canonjson

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the canonical form that new records use. Store it beside each record: an old record is
// judged by its own version (K09). It changes when, and only when, the canonical bytes of any value change.
const Version = 1

// MaxDepth is how deep objects and arrays may be nested.
const MaxDepth = 64

// Sum returns the SHA-256 of the canonical form, in the given version, of those parts of raw that count under the
// rules. Nil rules let everything count.
//
// The errors are the ones about input (ErrEmpty to ErrNumberRange) and ErrUnknownVersion.
func Sum(version int, raw []byte, rules *Rules) ([sha256.Size]byte, error) {
	canon, err := Canonical(version, raw, rules)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sha256.Sum256(canon), nil
}

// Canonical returns the bytes that Sum hashes.
func Canonical(version int, raw []byte, rules *Rules) ([]byte, error) {
	switch version {
	case 1:
		return canonicalV1(raw, rules)
	default:
		return nil, fmt.Errorf("%w (canonical form %d, known: 1)", ErrUnknownVersion, version)
	}
}

func canonicalV1(raw []byte, rules *Rules) ([]byte, error) {
	w := new(walker)
	text, err := parse(w.room[0][:0], raw)
	if err != nil {
		return nil, err
	}
	w.text, w.out, w.scratch, w.members = text, w.room[1][:0], w.room[2][:0], w.few[:0]
	if len(text) > roomSize {
		w.out = make([]byte, 0, len(text)+len(text)/8) // numbers may grow: 10 is 1e1
	}
	var at span
	if rules != nil {
		w.active = append(w.active, rules.roots...)
		at.hi = len(w.active)
	}
	if err := w.value(at); err != nil {
		return nil, err
	}
	return w.out, nil
}

// roomSize is the length up to which a text needs no memory but the walker's own; a typical call has 300 bytes.
const roomSize = 512

// walker goes through parsed text once and appends its canonical form to out.
type walker struct {
	text    []byte // what parse returned
	pos     int
	depth   int
	out     []byte
	members []member // of the objects that are open, innermost last
	names   []byte   // those that have an escape, unescaped
	scratch []byte
	active  []*edge // the rules that reached the open values, innermost last

	room [3][roomSize]byte // text, out and scratch at first, so that a typical call is one allocation
	few  [16]member        // members at first
}

// member is one member of an open object. Its text, with a comma behind it, is out[lo:hi], and its unescaped name is
// names or text, from name to nameEnd. It has no pointers because sorting moves it about.
type member struct {
	prefix        uint64 // the first 8 bytes of the name, which decide most comparisons
	lo, hi        int32
	name, nameEnd int32
	escaped       bool
}

// span is a part of walker.active: the rules that reached one value.
type span struct{ lo, hi int }

func (w *walker) value(at span) error {
	switch w.text[w.pos] {
	case '{', '[':
		return w.nested(at)
	case '"':
		w.string(at)
		return nil
	case 't', 'f', 'n':
		w.out = append(w.out, w.token(numberEnd(w.text, w.pos))...)
		return nil
	default:
		return w.number(at)
	}
}

func (w *walker) nested(at span) (err error) {
	if w.depth == MaxDepth {
		return ErrTooDeep
	}
	w.depth++
	w.pos++
	if w.text[w.pos-1] == '{' {
		err = w.object(at)
	} else {
		err = w.array(at)
	}
	w.pos++
	w.depth--
	return err
}

// object walks the members between the braces.
func (w *walker) object(at span) error {
	w.out = append(w.out, '{')
	base, body, sorted := len(w.members), len(w.out), true
	for w.text[w.pos] != '}' {
		m, err := w.member(at)
		if err != nil {
			return err
		}
		if int(m.lo) < len(w.out) { // nothing is left of an ignored member
			if n := len(w.members); n > base && w.compare(w.members[n-1], m) > 0 {
				sorted = false
			}
			w.members = append(w.members, m)
		}
	}
	if !sorted {
		w.sort(base, body)
	}
	w.members = w.members[:base]
	w.close(body, '}')
	return nil
}

func (w *walker) member(at span) (member, error) {
	m := member{lo: int32(len(w.out)), name: int32(w.pos + 1)}
	quoted := w.token(stringEnd(w.text, w.pos))
	m.nameEnd = int32(w.pos - 1)
	if bytes.IndexByte(quoted, '\\') >= 0 {
		m.escaped, m.name = true, int32(len(w.names))
		w.names, _ = jsontext.AppendUnquote(w.names, quoted) // cannot fail: jsontext wrote it
		m.nameEnd = int32(len(w.names))
	}
	m.prefix = prefix(w.nameOf(m))
	w.out = append(append(w.out, quoted...), ':')
	w.pos++ // the colon
	next := w.follow(at, w.nameOf(m))
	if err := w.value(next); err != nil {
		return member{}, under(err, w.nameOf(m))
	}
	w.end(next, int(m.lo))
	m.hi = int32(len(w.out))
	return m, nil
}

func (w *walker) nameOf(m member) []byte {
	if m.escaped {
		return w.names[m.name:m.nameEnd]
	}
	return w.text[m.name:m.nameEnd]
}

// array walks the elements between the brackets.
func (w *walker) array(at span) error {
	w.out = append(w.out, '[')
	body := len(w.out)
	for i := 0; w.text[w.pos] != ']'; i++ {
		var next span
		var index [20]byte
		if at != (span{}) {
			next = w.follow(at, strconv.AppendInt(index[:0], int64(i), 10))
		}
		lo := len(w.out)
		if err := w.value(next); err != nil {
			return under(err, strconv.AppendInt(nil, int64(i), 10))
		}
		w.end(next, lo)
	}
	w.close(body, ']')
	return nil
}

// end finishes a member or an element that began at out[lo:]. An ignored one is walked like any other, so that it is
// held to the same limits, and leaves no trace.
func (w *walker) end(at span, lo int) {
	ignored := slices.ContainsFunc(w.active[at.lo:at.hi], func(e *edge) bool { return e.ignore })
	if ignored {
		w.out = w.out[:lo]
	} else {
		w.out = append(w.out, ',')
	}
	if at != (span{}) {
		w.active = w.active[:at.lo]
	}
	if w.text[w.pos] == ',' {
		w.pos++
	}
}

// close puts the closing brace or bracket in the place of the last comma.
func (w *walker) close(body int, delim byte) {
	if len(w.out) > body {
		w.out = w.out[:len(w.out)-1]
	}
	w.out = append(w.out, delim)
}

// sort brings the members of the innermost object, whose text is out[body:], into the order of their names.
func (w *walker) sort(base, body int) {
	members := w.members[base:]
	slices.SortFunc(members, w.compare)
	w.scratch = w.scratch[:0]
	for _, m := range members {
		w.scratch = append(w.scratch, w.out[m.lo:m.hi]...)
	}
	copy(w.out[body:], w.scratch)
}

// compare orders members by name. UTF-8 compares bytewise in the order of code points.
func (w *walker) compare(a, b member) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return bytes.Compare(w.nameOf(a), w.nameOf(b))
}

// prefix returns the first 8 bytes of a name. A shorter one is padded with zeros, which may make it equal to a name
// that continues with U+0000, but never puts it on the wrong side of another.
func prefix(name []byte) uint64 {
	var first [8]byte
	copy(first[:], name)
	return binary.BigEndian.Uint64(first[:])
}

func (w *walker) string(at span) {
	quoted := w.token(stringEnd(w.text, w.pos))
	for _, e := range w.active[at.lo:at.hi] {
		if e.every > 0 {
			if rounded, ok := appendInstant(w.out, quoted, e.every); ok {
				w.out = rounded
				return
			}
			break
		}
	}
	w.out = append(w.out, quoted...)
}

func (w *walker) number(at span) error {
	lo := len(w.out)
	out, err := appendNumber(w.out, w.token(numberEnd(w.text, w.pos)))
	if err != nil {
		return err
	}
	w.out = out
	for _, e := range w.active[at.lo:at.hi] {
		if e.step != nil {
			w.out = e.step.floor(w.out, lo)
			break
		}
	}
	return nil
}

// token returns the text up to end and goes there.
func (w *walker) token(end int) []byte {
	tok := w.text[w.pos:end]
	w.pos = end
	return tok
}

// unquote returns the text of a string in canonical spelling.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // cannot fail either
	return name
}
