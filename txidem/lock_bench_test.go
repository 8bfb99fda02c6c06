package txidem

import (
	"strings"
	"testing"

	"github.com/txonce/txonce/toolcall"
)

// BenchmarkLockFor says what it costs that the scope is part of a call's lock. Each call has one, and so has each question about a
// call without a record.
func BenchmarkLockFor(b *testing.B) {
	for label, scope := range map[string]string{"short": "tenant-4711", "longest": strings.Repeat("x", maxName)} {
		b.Run(label, func(b *testing.B) {
			s := &Store{sql: queriesFor("txonce")}
			id := toolcall.NewID(scope, "issue_refund", "x:k")
			b.ReportAllocs()
			for b.Loop() {
				s.lockFor(scope, id)
			}
		})
	}
}
