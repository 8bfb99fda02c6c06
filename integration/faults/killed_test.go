package faults

import (
	"testing"

	"github.com/txonce/txonce/integration/internal/servers"
)

// TestServerKilled_R02_R08_UnderLoad kills the server with everything that it is doing, three times.
func TestServerKilled_R02_R08_UnderLoad(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, p servers.Place) {
		s := p.ForTest(t, nil)
		w := newWorld(t, s, nil, nil)
		w.employ(nil)
		l := newLoad(w, byRun, byBatch, byJob, byMessage).start()
		for range 3 {
			l.answered(12)
			if err := s.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.hears("unavailable", 1)
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.answered(12)
		l.end()
		w.clean()
	})
}
