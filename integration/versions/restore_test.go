package versions

import (
	"net/url"
	"testing"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
)

// TestRestore_O09_D07_FromTheOldestIntoTheNewest moves a database, by the newest version's own pg_dump and pg_restore, while some of its
// jobs and messages are done and some wait.
func TestRestore_O09_D07_FromTheOldestIntoTheNewest(t *testing.T) {
	t.Parallel()
	places, err := servers.AtHand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	from, to := places[0], places[len(places)-1]
	if from == to {
		t.Skipf("this needs two versions of Postgres, and there is only one, %s; run make pg-image where there is a container engine", from)
	}
	older, newer := server(t, from), server(t, to)
	name := database(t, older)
	db := pool(t, older, name)
	if err := migrations.Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	do(t, db, sqlTable)
	made := make(map[[2]string]answer) // by tool and key
	t.Run("there", func(t *testing.T) {
		a := newApp(t, db)
		a.run()
		for _, tool := range tools() {
			made[[2]string{tool, "done"}] = a.must(tool, "done", false)
		}
		a.worked(made[[2]string{toolJob, "done"}], "done")
		a.delivered(made[[2]string{toolMessage, "done"}], "done")
	})
	waiting := newApp(t, db) // whose worker and relay do not run
	for _, tool := range tools() {
		made[[2]string{tool, "waiting"}] = waiting.must(tool, "waiting", false)
	}

	moved := database(t, newer)
	err = newer.Shell(t.Context(), `pg_dump -Fc -f /tmp/moved -d "$FROM" && pg_restore --exit-on-error -d "$TO" /tmp/moved && rm /tmp/moved`,
		"FROM="+inside(t, older, name), "TO="+inside(t, newer, moved))
	if err != nil {
		t.Fatal(err)
	}

	db = pool(t, newer, moved)
	if err := migrations.Up(t.Context(), db, nil); err != nil {
		t.Fatal(err)
	}
	a := newApp(t, db)
	for call, first := range made {
		a.replays(call[0], call[1], first)
		effects := 1
		if call[0] == toolRefuse {
			effects = 0
		}
		a.effects(call[0]+" "+call[1], effects)
	}
	a.run()
	for _, key := range []string{"done", "waiting"} {
		a.worked(made[[2]string{toolJob, key}], key)
	}
	a.delivered(made[[2]string{toolMessage, "waiting"}], "waiting")
	gone := a.idIn(made[[2]string{toolMessage, "done"}])
	if fate, err := a.box.Fate(t.Context(), gone); err != nil || fate.State != toolcall.MessageDelivered || fate.Attempts != 1 {
		t.Errorf("a message that was delivered before the move: %+v, %v", fate, err)
	}
	if d := a.came(gone); !d.ID.IsZero() {
		t.Errorf("it was delivered again: %+v", d)
	}
	for _, tool := range tools() {
		a.replays(tool, "new", a.must(tool, "new", false))
	}
	if err := migrations.Down(t.Context(), db, nil); err != nil {
		t.Errorf("what was restored is not taken for the library's own: %v", err)
	}
}

// inside is the URL of a database where the servers are.
func inside(t *testing.T, s *servers.Server, database string) string {
	t.Helper()
	text, err := s.Inside(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}
