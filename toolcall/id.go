package toolcall

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
)

// idVersion is hashed into every id: another way of deriving ids must not meet the old ones.
const idVersion = "txonce/1"

// ID names one call: a UUID of version 8, derived from scope, tool and key. Everyone who knows those three knows the
// id, before any row exists (K01). The zero ID names no call.
type ID [16]byte

// NewID derives the id of the call that (scope, tool, key) identify. Each part is hashed behind its length, so no
// crafted part can be mistaken for two (K06).
func NewID(scope, tool, key string) ID {
	h := sha256.New()
	for _, part := range [...]string{idVersion, scope, tool, key} {
		writePart(h, part)
	}
	var id ID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8: the bits are the author's own
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

func writePart(h hash.Hash, part string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(part)))
	h.Write(n[:])
	h.Write([]byte(part))
}

// ParseID reads the form that [ID.String] writes, in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, errParseID
	}
	text := []byte(s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36])
	if _, err := hex.Decode(id[:], text); err != nil {
		return ID{}, errParseID
	}
	return id, nil
}

var errParseID = errors.New("toolcall: a call id is a UUID such as 0190f3c4-8e2a-8b1d-9c3e-5f6a7b8c9d0e")

// IsZero reports whether the id names no call.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the id in the usual form of a UUID, 36 characters in lower case.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// MarshalText makes the id a string in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what [ID.MarshalText] wrote.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
