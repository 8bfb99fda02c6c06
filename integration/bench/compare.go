package main

import (
	"cmp"
	"fmt"
	"slices"
)

// What of a sample can be compared.
func latency(s sample) float64 { return float64(s.p50) }
func rate(s sample) float64    { return s.rate }
func wal(s sample) float64     { return s.wal }
func allocs(s sample) float64  { return s.allocs }

// of returns what was found out about a shape, in the order in which the slices were measured.
func (b *bench) of(shape int, set setting, number func(sample) float64) []float64 {
	var all []float64
	for _, s := range b.samples[cell{shape, set}] {
		all = append(all, number(s))
	}
	return all
}

// ratio compares two shapes slice by slice, each with the other's in the same pass.
func (b *bench) ratio(shape, to int, set setting, number func(sample) float64) ratio {
	return ratioOf(b.of(shape, set, number), b.of(to, set, number))
}

// ratioOf compares numbers pair by pair. It overwrites the first ones.
func ratioOf(of, per []float64) ratio {
	for i := range of {
		of[i] /= per[i]
	}
	return ratio{median(of), quantile(of, 1, 4), quantile(of, 3, 4)}
}

// ratio is the median of many, and the range in which the middle half of them lies.
type ratio struct{ median, low, high float64 }

func (r ratio) String() string { return fmt.Sprintf("%5.2f (%.2f-%.2f)", r.median, r.low, r.high) }

func median[T cmp.Ordered](all []T) T { return quantile(all, 1, 2) }

// quantile sorts its argument and returns the element behind the given part of it.
func quantile[T cmp.Ordered](all []T, part, of int) T {
	slices.Sort(all)
	return all[len(all)*part/of]
}
