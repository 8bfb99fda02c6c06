package canonjson

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// MaxLeaves is how many values Fields hashes one by one, and MaxFields how many bytes it returns. Where there is more,
// the deepest and the largest objects and arrays are hashed as a whole and Diff names their path instead of the paths
// inside them.
const (
	MaxLeaves = 64
	MaxFields = 4 << 10
)

// maxEffort is how many times Fields may read the text to find out where its parts are.
const maxEffort = 16

// fieldsVersion is the version of the encoding below.
const fieldsVersion = 1

// hashSize is how many bytes of a hash are kept: enough to tell a changed value from an equal one (a change goes
// unnamed once in 4 billion), too few to confirm a guess at anything but a small set of values.
const hashSize = 4

// The encoding of Fields, version 1:
//
//	fields = version(1) canonical-version(1) node
//	node   = 'v' hash(4)                                   a scalar, an empty object or array, or a whole subtree
//	       | 'o' uvarint(n) n*(uvarint(len) name node)     an object, its names unescaped and ascending
//	       | 'a' uvarint(n) n*node                         an array
//	hash   = the first 4 bytes of SHA-256(uvarint(len) salt uvarint(len) path canonical-text)
const (
	leafNode   = 'v'
	objectNode = 'o'
	arrayNode  = 'a'
)

// Fields returns a compact description of those parts of raw that count, from which Diff can later name the paths that
// differ (K07). It holds member names and short salted hashes, never values, and at most MaxFields bytes. Use a salt of
// one's own for each record, so that equal values in two records do not look equal.
//
// The errors are those of Sum.
func Fields(raw []byte, rules *Rules, salt []byte) ([]byte, error) {
	canon, err := Canonical(Version, raw, rules)
	if err != nil {
		return nil, err
	}
	return FieldsOf(canon, salt), nil
}

// FieldsOf is Fields for those who have what Canonical of the current version returned, and nothing else.
func FieldsOf(canon, salt []byte) []byte {
	o := outline{text: canon, hasher: newHasher(salt)}
	o.grow()
	return o.encode([]byte{fieldsVersion, Version}, 0, make([]byte, 0, maxPath))
}

// outline is the top of a document: as many levels as the limits allow, breadth first, so that a long list deep down
// costs the detail of that list and not of its neighbours.
type outline struct {
	text  []byte // canonical
	parts []part // each one's children are next to one another
	hasher
}

// part is one value of the document. It is hashed as a whole while it has no children.
type part struct {
	name     []byte // unescaped; nil in an array
	lo, hi   int    // its text
	children int    // index of the first
	n        int    // how many
}

func (o *outline) grow() {
	most := 1 + bytes.Count(o.text, []byte{','}) + bytes.Count(o.text, []byte{':'}) // a small document needs little
	o.parts = append(make([]part, 0, min(MaxLeaves, most)), part{hi: len(o.text)})
	leaves, size, effort := 1, 2+1+hashSize, 0
	for i := 0; i < len(o.parts); i++ {
		p := o.parts[i]
		if c := o.text[p.lo]; c != '{' && c != '[' {
			continue
		}
		// Finding the children reads the part's text. The bound on the effort keeps a deep document linear.
		if effort += p.hi - p.lo; effort > maxEffort*len(o.text) {
			break
		}
		first := len(o.parts)
		grown, ok := o.split(p, size, MaxLeaves-leaves+1)
		if n := len(o.parts) - first; ok && n > 0 {
			o.parts[i].children, o.parts[i].n = first, n
			leaves, size = leaves+n-1, grown
			continue
		}
		o.parts = o.parts[:first]
	}
}

// split appends the children of p and returns the size of the encoding with them; false if they do not fit.
func (o *outline) split(p part, size, room int) (int, bool) {
	n := 0
	size += binary.MaxVarintLen16 - hashSize
	for pos := p.lo + 1; pos < p.hi-1; pos++ { // over the comma
		var child part
		if o.text[p.lo] == '{' {
			end := stringEnd(o.text, pos)
			child.name = unquote(o.text[pos:end])
			size += binary.MaxVarintLen16 + len(child.name)
			pos = end + 1
		}
		child.lo, child.hi = pos, valueEnd(o.text, pos)
		pos = child.hi
		size += 1 + hashSize
		if n++; n > room || size > MaxFields {
			return 0, false
		}
		o.parts = append(o.parts, child)
	}
	return size, true
}

func (o *outline) encode(dst []byte, i int, path []byte) []byte {
	p := o.parts[i]
	if p.n == 0 {
		sum := o.hash(path, o.text[p.lo:p.hi])
		return append(append(dst, leafNode), sum[:]...)
	}
	object := o.text[p.lo] == '{'
	kind := byte(arrayNode)
	if object {
		kind = objectNode
	}
	dst = binary.AppendUvarint(append(dst, kind), uint64(p.n))
	for k := range p.n {
		name := o.parts[p.children+k].name
		if object {
			dst = append(binary.AppendUvarint(dst, uint64(len(name))), name...)
		} else {
			name = strconv.AppendInt(nil, int64(k), 10)
		}
		dst = o.encode(dst, p.children+k, appendToken(path, name))
	}
	return dst
}

// hasher makes the short hashes of one record.
type hasher struct {
	input []byte // begins with the salt and is reused
	salt  int
}

func newHasher(salt []byte) hasher {
	input := append(binary.AppendUvarint(make([]byte, 0, roomSize), uint64(len(salt))), salt...)
	return hasher{input: input, salt: len(input)}
}

// hash binds the value to its path, so that equal values of one record do not look equal either.
func (h *hasher) hash(path, canon []byte) (short [hashSize]byte) {
	h.input = append(binary.AppendUvarint(h.input[:h.salt], uint64(len(path))), path...)
	h.input = append(h.input, canon...)
	sum := sha256.Sum256(h.input)
	copy(short[:], sum[:])
	return short
}
