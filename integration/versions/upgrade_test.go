package versions

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/migrations"
	"github.com/txonce/txonce/toolcall"
)

// data is what is in a database that was left at a version of the schema: the rows of testdata, up to that version's.
type data uint

// at makes an empty database one that was left at a version, by the library of then.
func at(t *testing.T, db *pgxpool.Pool, version uint) data {
	t.Helper()
	if version == 0 {
		return 0
	}
	if err := migrations.Up(t.Context(), db, &migrations.Config{NoRiver: true}); err != nil {
		t.Fatal(err)
	}
	if newer := latest(t) - version; newer > 0 {
		step(t, runner(t, db), -int(newer))
	}
	for n := range version {
		rows, err := os.ReadFile(fmt.Sprintf("testdata/%d.sql", n+1))
		if err != nil {
			t.Fatal(fmt.Errorf("a new version needs rows as that version wrote them: %w", err))
		}
		do(t, db, string(rows))
	}
	return data(version)
}

// before are the calls that were made at each version, and what they were answered.
var before = []struct {
	version data
	tool    string
	answer
}{
	{1, toolWrite, answer{Raw: `"D2YNFZAVUZKW4QI7A47UCJ3TUL"`}},
	{1, toolRefuse, answer{Raw: `{"code":"no","message":"not TFAMX5WAFLZMFH63H3A23P6WXI"}`, Failure: toolcall.Failure{Code: "no", Message: "not TFAMX5WAFLZMFH63H3A23P6WXI"}}},
	{2, toolLeased, answer{Raw: `"6AD44KG6HOE7UAIVXLXTVWU4WS"`}},
	{3, toolJob, answer{Raw: `"01a22bb8-86fd-750b-8274-dee05de359dd"`}},
	{4, toolMessage, answer{Raw: `"01a22bb8-8711-70ab-906f-5e8e80bcbd13"`}},
}

// goesOn has the library work with the data, behind the upgrade: what was answered is answered again and does not run, what waited
// is done.
func (d data) goesOn(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	if current, latest, err := migrations.Version(t.Context(), db, nil); err != nil || current != latest {
		t.Fatalf("the schema is at version %d of %d, %v", current, latest, err)
	}
	d.works(t, db)
}

// works has the library work with the data.
func (d data) works(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	do(t, db, `create table if not exists effect (key text not null)`)
	a := newApp(t, db)
	a.run()
	for _, was := range before {
		if was.version > d {
			break
		}
		key := fmt.Sprintf("v%d", was.version)
		a.replays(was.tool, key, was.answer)
		a.effects(was.tool+" "+key, 0)
		switch was.tool {
		case toolJob:
			a.worked(was.answer, key)
		case toolMessage:
			a.delivered(was.answer, key)
		}
	}
	for _, tool := range tools() {
		a.replays(tool, "new", a.must(tool, "new", false))
	}
}

// TestMigrations_D07_FromEachVersionWithData: calls, jobs and messages from before the upgrade go on behind it.
func TestMigrations_D07_FromEachVersionWithData(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		for n := range latest(t) {
			t.Run(fmt.Sprintf("from %d", n+1), func(t *testing.T) {
				t.Parallel()
				db := fresh(t, place)
				old := at(t, db, n+1)
				if err := migrations.Up(t.Context(), db, nil); err != nil {
					t.Fatal(err)
				}
				old.goesOn(t, db)
			})
		}
	})
}

// TestMigrations_D07_PreviousBuildOnNewerSchema: a deployment is taken back. The schema stays, with what the newer build has added, and
// all goes on with ours.
func TestMigrations_D07_PreviousBuildOnNewerSchema(t *testing.T) {
	servers.Everywhere(t, func(t *testing.T, place servers.Place) {
		db := fresh(t, place)
		old := at(t, db, latest(t))
		if err := migrations.Up(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		for _, table := range get[[]string](t, db, `select array_agg(tablename::text) from pg_tables where schemaname = 'txonce' and tablename <> 'schema_migrations'`) {
			do(t, db, fmt.Sprintf(`alter table txonce.%s add column note text, add column level int not null default 0`, table))
		}
		do(t, db, `create table txonce.later (id int primary key)`)
		do(t, db, fmt.Sprintf(`update txonce.schema_migrations set version = %d`, latest(t)+1))
		if err := migrations.Up(t.Context(), db, nil); err != nil {
			t.Fatalf("our build does not start: %v", err)
		}
		old.works(t, db)
	})
}
