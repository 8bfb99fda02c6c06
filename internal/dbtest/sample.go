package dbtest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Sample returns the cases, and with -short n of them, others each time: where a case takes seconds, and most are alike.
func Sample[K comparable, V any](t testing.TB, n int, cases map[K]V) map[K]V {
	t.Helper()
	if !testing.Short() {
		return cases
	}
	keys := slices.Collect(maps.Keys(cases))
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	drawn := make(map[K]V)
	for _, key := range keys[:n] {
		drawn[key] = cases[key]
	}
	t.Logf("with -short %d of %d cases", n, len(cases))
	return drawn
}
