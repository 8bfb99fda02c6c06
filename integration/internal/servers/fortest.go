package servers

import "testing"

// Everywhere runs a test in each place at hand, all of them in parallel, with each other and with other tests.
func Everywhere(t *testing.T, test func(*testing.T, Place)) {
	t.Helper()
	t.Parallel()
	places, err := AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// ForTest is [Place.Start] for a server that ends with the test.
func (p Place) ForTest(t testing.TB, cfg *Config) *Server {
	t.Helper()
	s, err := p.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
