package txidem

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// IntentKey makes the key of a step of a run: the same step has the same key after a crash, on another worker and in
// other words of the model (B, C). Run and step come from the checkpoint that a resumed run starts from; never put
// there what a model or a retry makes anew, such as a tool-call id.
func IntentKey(run, step, tool string) string { return hashKey("intent", run, step, tool) }

// BusinessKey makes the key of what the call means, such as BusinessKey("refund", order, line): two calls for the same
// thing are one, whoever asks. Put in whatever makes two legitimate calls differ.
func BusinessKey(parts ...string) string { return hashKey("business", parts...) }

// hashKey hashes each part behind its length, so that no crafted part can be mistaken for two (K06).
func hashKey(kind string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{kind}, parts...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return kind + "-" + hex.EncodeToString(h.Sum(nil)[:20])
}
