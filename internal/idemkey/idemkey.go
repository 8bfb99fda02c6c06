// Package idemkey makes idempotency keys and says where they travel: what a caller and a server must agree on, in a package
// that a caller can use without a database driver.
//
// It may import the standard library only.
package idemkey

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Meta is the name of the key in the _meta of an MCP request.
const Meta = "dev.txonce/idempotency-key"

// Extension is the name under which a server and its tools say how calls are protected; Guarded is the class of a tool whose
// calls are.
const (
	Extension = "dev.txonce/idempotency"
	Guarded   = "guarded"
)

// Intent is the key of a step of a run.
func Intent(run, step, tool string) string { return hash("intent", run, step, tool) }

// Business is the key of what a call means.
func Business(parts ...string) string { return hash("business", parts...) }

// hash hashes each part behind its length, so that no crafted part can be mistaken for two (K06).
func hash(kind string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{kind}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return kind + "-" + hex.EncodeToString(h.Sum(nil)[:20])
}
