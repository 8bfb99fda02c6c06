package canonjson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxDiff is how many paths Diff returns.
const MaxDiff = 16

// Diff names the paths at which raw differs from what Fields described, sorted: values that changed, were added or are
// gone. It returns the first MaxDiff of them, none when nothing differs; a path longer than 256 bytes is cut. The
// empty path is the whole document. The rules should be those that Fields was given, or what they now ignore is
// reported as gone. The salt must be the same. The canonical form is the stored one's version (K09).
//
// The errors are ErrCorrupt, ErrUnknownVersion and those of Sum.
func Diff(stored, raw []byte, rules *Rules, salt []byte) ([]string, error) {
	if len(stored) < 2 || len(stored) > MaxFields {
		return nil, fmt.Errorf("%w (%d bytes)", ErrCorrupt, len(stored))
	}
	if stored[0] != fieldsVersion {
		return nil, fmt.Errorf("%w (field hashes %d, known: %d)", ErrUnknownVersion, stored[0], fieldsVersion)
	}
	r := reader{rest: stored[2:]}
	old, ok := r.node(0)
	if !ok || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w (at byte %d of %d)", ErrCorrupt, len(stored)-len(r.rest), len(stored))
	}
	canon, err := Canonical(int(stored[1]), raw, rules)
	if err != nil {
		return nil, err
	}
	d := differ{text: canon, hasher: newHasher(salt)}
	d.value(old, make([]byte, 0, maxPath))
	d.trim()
	return d.paths, nil
}

// storedNode is a decoded node of the encoding.
type storedNode struct {
	kind     byte
	hash     [hashSize]byte
	names    [][]byte
	children []storedNode
}

// reader decodes what Fields wrote. Whatever it is given, it uses memory in proportion to the input: every node takes
// at least one byte of it.
type reader struct{ rest []byte }

func (r *reader) node(depth int) (storedNode, bool) {
	if len(r.rest) == 0 || depth > MaxDepth {
		return storedNode{}, false
	}
	n := storedNode{kind: r.rest[0]}
	r.rest = r.rest[1:]
	if n.kind == leafNode {
		return n, copy(n.hash[:], r.take(hashSize)) == hashSize
	}
	count, ok := r.length()
	if !ok || count == 0 || n.kind != objectNode && n.kind != arrayNode {
		return n, false
	}
	for range count {
		if n.kind == objectNode && !r.name(&n) {
			return n, false
		}
		child, ok := r.node(depth + 1)
		if !ok {
			return n, false
		}
		n.children = append(n.children, child)
	}
	return n, true
}

func (r *reader) name(n *storedNode) bool {
	size, ok := r.length()
	if !ok {
		return false
	}
	name := r.take(size)
	if !utf8.Valid(name) || len(n.names) > 0 && bytes.Compare(n.names[len(n.names)-1], name) >= 0 {
		return false
	}
	n.names = append(n.names, name)
	return true
}

// length reads a length or count that the rest of the input can hold.
func (r *reader) length() (int, bool) {
	v, size := binary.Uvarint(r.rest)
	if size <= 0 || v > uint64(len(r.rest)-size) {
		return 0, false
	}
	r.rest = r.rest[size:]
	return int(v), true
}

func (r *reader) take(n int) []byte {
	n = min(n, len(r.rest))
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// differ walks the new document beside the old outline.
type differ struct {
	text  []byte // canonical
	pos   int
	paths []string
	hasher
}

// value compares the value at pos and goes behind it.
func (d *differ) value(old storedNode, path []byte) {
	lo := d.pos
	switch c := d.text[lo]; {
	case old.kind == objectNode && c == '{':
		d.object(old, path)
	case old.kind == arrayNode && c == '[':
		d.array(old, path)
	default:
		d.pos = valueEnd(d.text, lo)
		if old.kind != leafNode || d.hash(path, d.text[lo:d.pos]) != old.hash {
			d.report(path)
		}
	}
}

// object goes through the members of both sides, which are in the same order.
func (d *differ) object(old storedNode, path []byte) {
	i := 0
	for d.pos++; d.text[d.pos] != '}'; d.comma() {
		end := stringEnd(d.text, d.pos)
		name := unquote(d.text[d.pos:end])
		d.pos = end + 1
		for ; i < len(old.names) && bytes.Compare(old.names[i], name) < 0; i++ {
			d.report(appendToken(path, old.names[i])) // gone
		}
		below := appendToken(path, name)
		if i < len(old.names) && bytes.Equal(old.names[i], name) {
			d.value(old.children[i], below)
			i++
			continue
		}
		d.pos = valueEnd(d.text, d.pos)
		d.report(below) // added
	}
	d.pos++
	for ; i < len(old.names); i++ {
		d.report(appendToken(path, old.names[i]))
	}
}

func (d *differ) array(old storedNode, path []byte) {
	i := 0
	for d.pos++; d.text[d.pos] != ']'; d.comma() {
		below := appendToken(path, strconv.AppendInt(nil, int64(i), 10))
		if i < len(old.children) {
			d.value(old.children[i], below)
		} else {
			d.pos = valueEnd(d.text, d.pos)
			d.report(below)
		}
		i++
	}
	d.pos++
	for ; i < len(old.children); i++ {
		d.report(appendToken(path, strconv.AppendInt(nil, int64(i), 10)))
	}
}

func (d *differ) comma() {
	if d.text[d.pos] == ',' {
		d.pos++
	}
}

func (d *differ) report(path []byte) {
	d.paths = append(d.paths, shortPath(string(path)))
	if len(d.paths) >= 8*MaxDiff { // a million added members need no million paths
		d.trim()
	}
}

func (d *differ) trim() {
	slices.Sort(d.paths)
	d.paths = slices.Compact(d.paths)
	d.paths = d.paths[:min(len(d.paths), MaxDiff)]
}
