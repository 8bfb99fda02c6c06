package main

import "runtime"

// heapMark is what the client held in memory at some moment.
type heapMark struct {
	when  string
	bytes uint64
}

// markHeap counts what is left after garbage collection, so that what a phase has kept shows (Q02).
func (g *growth) markHeap(when string) {
	g.heap = append(g.heap, heapMark{when, heapNow()})
}

// heapNow returns the bytes that are in use behind a garbage collection.
func heapNow() uint64 {
	runtime.GC()
	runtime.GC() // what the first one found to be final
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
