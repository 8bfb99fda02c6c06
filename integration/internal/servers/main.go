package servers

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// begun are the servers of this process, for [Main].
var begun list

type list struct {
	mu  sync.Mutex
	all []*Server
}

func (l *list) add(s *Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// Main is the TestMain of a suite: it runs the tests, stops the servers that they share and have left running, says once for
// each place what they ran on, and fails when a goroutine is left.
func Main(m *testing.M) {
	code := m.Run()
	for _, s := range begun.all {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "servers:", err)
			code = max(code, 1)
		}
	}
	RanOn(slices.CompactFunc(slices.SortedFunc(slices.Values(begun.all), byPlace), samePlace)...)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "servers: goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func byPlace(a, b *Server) int { return a.place.major - b.place.major }

func samePlace(a, b *Server) bool { return byPlace(a, b) == 0 }
