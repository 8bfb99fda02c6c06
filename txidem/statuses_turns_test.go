package txidem

import "testing"

// TestStatuses_S03_CostsTwoRoundTripsAtMost, and no connection: one that is given back inside a transaction is closed by the pool.
func TestStatuses_S03_CostsTwoRoundTripsAtMost(t *testing.T) {
	t.Parallel()
	w := &turns{}
	f := setup(t, nil, w.counted)
	if _, err := Run(t.Context(), f.store, request("done"), writes("done")); err != nil {
		t.Fatal(err)
	}
	for label, c := range map[string]struct {
		keys []string
		want int
	}{
		"one that has ended":  {[]string{"done"}, 1},
		"one that is missing": {[]string{"never"}, 2},
		"both":                {[]string{"done", "never"}, 2},
	} {
		var reqs []Request
		for _, key := range c.keys {
			reqs = append(reqs, request(key))
		}
		before := f.pool.Stat().NewConnsCount()
		for i := range 4 { // the first ones describe the statements
			w.take()
			f.ask(reqs...)
			if n := w.take(); i == 3 && n != c.want {
				t.Errorf("%s: %d round trips, want %d", label, n, c.want)
			}
		}
		if n := f.pool.Stat().NewConnsCount() - before; n != 0 {
			t.Errorf("%s: %d new connections", label, n)
		}
	}
}
