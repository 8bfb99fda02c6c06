package txidemtest

import (
	"testing"
)

// Run proves the tool on the database whose URL the function returns, with txidem's table and the tool's own in it: one
// subtest for each point at which a call is broken, which fails with what was found there.
//
// For the points at which the process is killed, Run starts the test binary again, with -test.run set to this test. There it
// makes one call, on the same database, and dies; it does not return, and does not call database. So what is in front
// of Run in the test runs there as well, and must not depend on what happens only once: make the database in the function
// (create database, migrations.Up, the tool's tables) and drop it in a t.Cleanup there.
// A TestMain that starts servers can ask [Dying].
func Run(t *testing.T, database func() string, tool Tool) {
	t.Helper()
	err := check(t.Context(), t.Name(), database, tool, func(name string, do part) error {
		var err error
		t.Run(name, func(t *testing.T) {
			var found result
			if found, err = do(t.Context()); found.problem != "" {
				t.Error(Finding{Point: name, Problem: found.problem})
			}
			if found.missed {
				t.Log("not reached: the call took another way than the first one")
			}
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
