package main

import (
	"math"
	"time"
)

// histogram counts times in classes that are half a per cent wide, so that a long run needs no more memory than a short
// one (Q02).
type histogram struct {
	classes []int
	n       int
}

// The classes begin at a microsecond; what is faster is in the first one.
const (
	classWidth = 1.005
	firstClass = time.Microsecond
)

func (h *histogram) add(took time.Duration) {
	class := max(0, int(math.Log(float64(took)/float64(firstClass))/math.Log(classWidth)))
	for len(h.classes) <= class {
		h.classes = append(h.classes, 0)
	}
	h.classes[class]++
	h.n++
}

// quantile returns the middle of the class in which the element behind the given part is, or 0 if there is none.
func (h *histogram) quantile(part, of int) time.Duration {
	left := h.n * part / of
	for class, n := range h.classes {
		if left < n {
			return time.Duration(float64(firstClass) * math.Pow(classWidth, float64(class)+0.5))
		}
		left -= n
	}
	return 0
}
