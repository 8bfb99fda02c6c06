package sqltext

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][]string{
		"":                                  nil,
		" -- nothing\n; /* at /* all */ */": nil,
		"select 1":                          {"select 1"},
		"select 1;":                         {"select 1"},
		"select 1; -- and no more":          {"select 1"},
		"select 1;select 2":                 {"select 1", "select 2"},
		"select ';', \";\", $$;$$, $a$;$$;$a$, E'\\';', 'it'';s' /*;*/": {"select ';', \";\", $$;$$, $a$;$$;$a$, E'\\';', 'it'';s' /*;*/"},
		"select '\\'; commit":     {"select '\\'", " commit"}, // a backslash escapes nothing
		"select $1; commit":       {"select $1", " commit"},   // a parameter opens no quote
		"select 'open; commit":    {"select 'open; commit"},
		"select $a$ open; commit": {"select $a$ open; commit"},
		// What a server reads as two statements must not look like one.
		"select 1 a$x$; commit; select 1 b$x$":            {"select 1 a$x$", " commit", " select 1 b$x$"},    // a name may hold a $
		"select 1 -- no\r; commit":                        {"select 1 -- no\r", " commit"},                   // a carriage return ends a comment
		"select e'a'\n'\\' '; commit; select '1'":         {"select e'a'\n'\\' '", " commit", " select '1'"}, // the string goes on in the next line
		"select e'a' --\n /**/ '\\' '; commit; select ''": {"select e'a' --\n /**/ '\\' '", " commit", " select ''"},
		"select $\u2026$ ' $\u2026$ ; commit; select ''":  {"select $\u2026$ ' $\u2026$ ", " commit", " select ''"}, // any sign beyond ASCII is a letter
		"select 1 a\u2026$x$; commit; select 1 b$x$":      {"select 1 a\u2026$x$", " commit", " select 1 b$x$"},
	} {
		if diff := cmp.Diff(want, Statements(sql)); diff != "" {
			t.Errorf("Statements(%q) (-want +got):\n%s", sql, diff)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"/* commit */ Start -- commit\nTransaction": "start transaction",
		"insert into a values ('commit', $1, 2)":    "insert into a values 1 2",
		"table \"commit\"; END":                     "table ; end",
		"e'\\'commit' ende 'x'":                     "ende",
		"größe_1":                                   "größe_1",
	} {
		if got := strings.Join(Words(sql), " "); got != want {
			t.Errorf("Words(%q) = %q, want %q", sql, got, want)
		}
	}
}

func FuzzStatements(f *testing.F) {
	for _, seed := range []string{"select 1; commit", "e'\\", "$a$;$a$", "/*/**/", "\"", "--", "$1$", "\xff;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		for _, s := range Statements(sql) {
			if !strings.Contains(sql, s) {
				t.Errorf("%q is no part of %q", s, sql)
			}
		}
		Words(sql)
	})
}

func TestLeading(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][2]string{
		"":                                     {"", ""},
		"/* rollback */ COMMIT":                {"commit", ""},
		"Commit -- and so on\n Prepared 'x'":   {"commit", "prepared"},
		"insert into effect values ('commit')": {"insert", "into"},
	} {
		if verb, object := Leading(sql); verb != want[0] || object != want[1] {
			t.Errorf("Leading(%q) = %q, %q; want %q", sql, verb, object, want)
		}
	}
}
