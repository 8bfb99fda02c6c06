package dbtest

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// EnvDraw may have any text: what is drawn for a shorter run is the same for the same text. Empty draws anew each time.
const EnvDraw = "TXONCE_DRAW"

// Draw returns what draws for something that has a name, such as a test's.
func Draw(name string) *rand.Rand {
	text := os.Getenv(EnvDraw)
	if text == "" {
		return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(text + "\n" + name))
	sum := h.Sum(nil)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])))
}

// Sample returns the cases, and with -short n of them, others each time (but see [EnvDraw]): where a case takes seconds, and most are
// alike.
func Sample[K cmp.Ordered, V any](t testing.TB, n int, cases map[K]V) map[K]V {
	t.Helper()
	if !testing.Short() {
		return cases
	}
	keys := slices.Sorted(maps.Keys(cases))
	Draw(t.Name()).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	drawn := make(map[K]V)
	for _, key := range keys[:n] {
		drawn[key] = cases[key]
	}
	t.Logf("with -short %d of %d cases", n, len(cases))
	return drawn
}
