package migrations

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/golang-migrate/migrate/v4/source"

	"github.com/txonce/txonce/internal/sqltext"
)

// TestFiles_OneTransactionEach keeps out of the files what would end the
// transaction they share with their version, or cannot run inside one.
func TestFiles_OneTransactionEach(t *testing.T) {
	t.Parallel()
	entries, err := fs.ReadDir(Files, filesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		sql, err := fs.ReadFile(Files, filesDir+"/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if bad := offences(string(sql)); len(bad) > 0 {
			t.Errorf("%s: not allowed in a migration: %q", e.Name(), bad)
		}
	}
}

func TestFiles_PairedAndNumbered(t *testing.T) {
	t.Parallel()
	f, err := openFiles(Files)
	if err != nil {
		t.Fatal(err)
	}
	for v := uint(1); v <= f.latest; v++ {
		for _, direction := range []source.Direction{source.Up, source.Down} {
			name := f.names[fileKey{v, direction}]
			if !strings.HasPrefix(name, fmt.Sprintf("%06d_", v)) {
				t.Errorf("version %d, %s: file %q; want one that begins with %06d_", v, direction, name, v)
			}
		}
	}
	if len(f.names) != 2*int(f.latest) {
		t.Errorf("%d files for %d versions", len(f.names), f.latest)
	}
}

func TestFiles_Offences(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"create table a (b int); commit;":                  "commit",
		"BEGIN; create table a (b int)":                    "begin",
		"create table a (b int); end":                      "end",
		"/* x /* y */ */ Start Transaction":                "start",
		"-- once\ncreate index concurrently i on a (b)":    "concurrently",
		"create unique /**/ index Concurrently i on a (b)": "concurrently",
		"vacuum a":                 "vacuum",
		"set search_path = public": "set",
		"reset all":                "reset",
		"create table a (b text default E'\\'; x'); rollback":                            "rollback",
		"create table a (b text default 'it''s'); abort":                                 "abort",
		"create table a (\"b;\"\"c\" int); savepoint x":                                  "savepoint",
		"create function f() returns int language sql as $a$ select 1; $a$; discard all": "discard",
		"create table a (b int); -- commit":                                              "",
		"/* commit; */ create table a (b text default 'x; commit')":                      "",
		"do $$ begin perform 1; end $$;":                                                 "",
		"create table commit_log (begin_at int)":                                         "",
		"create temp table a (b int) on commit drop":                                     "",
		"select case when true then 1 end":                                               "",
		"select '$$'; select 1":                                                          "",
	} {
		got := strings.Join(offences(sql), ",")
		if got != want {
			t.Errorf("offences(%q) = %q, want %q", sql, got, want)
		}
	}
}

// offences returns the words that have no place in a migration: first words of
// statements that control transactions, settings or the session, and
// CONCURRENTLY anywhere.
func offences(sql string) []string {
	first := []string{
		"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare",
		"vacuum", "set", "reset", "discard", "call", "cluster",
	}
	var bad []string
	atStart := true
	for _, word := range sqltext.Words(sql) {
		if word == "concurrently" || atStart && slices.Contains(first, word) {
			bad = append(bad, word)
		}
		atStart = word == ";"
	}
	return bad
}
