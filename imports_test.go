package txonce

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/txonce/txonce"

// allowed says what the code of each package (its tests apart) may import beside the standard library. Data flows one
// way, from the edge to the record: nothing here may look up. A package that is not listed may not exist.
var allowed = map[string][]string{
	".":                       {},
	"toolcall":                {"github.com/jackc/pgx/v5"},
	"txidem":                  {module + "/toolcall", module + "/internal/canonjson", module + "/internal/handlertx", module + "/internal/idemkey", module + "/internal/randid", module + "/internal/sideconn", module + "/internal/sqltext", "github.com/jackc/pgx/v5/..."},
	"txidem/mcpidem":          {module + "/toolcall", module + "/txidem", module + "/internal/canonjson", module + "/internal/idemkey", module + "/internal/keyheader", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/modelcontextprotocol/go-sdk/...", "github.com/google/jsonschema-go/jsonschema", "github.com/go-json-experiment/json/..."},
	"txidem/mcpidem/intent":   {module + "/internal/idemkey", "github.com/modelcontextprotocol/go-sdk/mcp", "github.com/modelcontextprotocol/go-sdk/jsonrpc"},
	"txidem/txidemtest":       {module + "/toolcall", module + "/txidem", module + "/internal/pgturns", "github.com/jackc/pgx/v5/..."},
	"jobs":                    {module + "/toolcall", module + "/internal/randid", module + "/internal/handlertx", module + "/internal/sideconn", "github.com/jackc/pgx/v5/...", "github.com/riverqueue/river", "github.com/riverqueue/river/rivertype", "github.com/riverqueue/river/riverdriver/riverpgxv5"},
	"outbox":                  {module + "/toolcall", module + "/internal/handlertx", module + "/internal/randid", "github.com/jackc/pgx/v5/..."},
	"outbox/webhook":          {module + "/outbox", "github.com/standard-webhooks/standard-webhooks/libraries/go"},
	"outbox/outboxtest":       {module + "/outbox", module + "/toolcall", "github.com/google/go-cmp/cmp"},
	"outbox/riverpub":         {module + "/outbox", module + "/toolcall", "github.com/jackc/pgx/v5", "github.com/riverqueue/river", "github.com/riverqueue/river/rivertype"},
	"statustool":              {module + "/toolcall", "github.com/modelcontextprotocol/go-sdk/mcp", "github.com/modelcontextprotocol/go-sdk/jsonrpc", "github.com/google/jsonschema-go/jsonschema"},
	"migrations":              {"github.com/jackc/pgx/v5/...", "github.com/golang-migrate/migrate/v4/...", "github.com/riverqueue/river/rivermigrate", "github.com/riverqueue/river/riverdriver/riverpgxv5"},
	"internal/canonjson":      {"github.com/go-json-experiment/json/jsontext"},
	"internal/idemkey":        {},
	"txidem/httpidem":         {module + "/toolcall", module + "/txidem", module + "/internal/canonjson", module + "/internal/keyheader", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgconn", "github.com/standard-webhooks/standard-webhooks/libraries/go"},
	"internal/keyheader":      {"github.com/dunglas/httpsfv"},
	"internal/randid":         {module + "/toolcall", "github.com/jackc/pgx/v5/pgtype"},
	"internal/handlertx":      {module + "/toolcall", module + "/internal/sqltext", "github.com/jackc/pgx/v5/..."},
	"internal/sideconn":       {"github.com/jackc/pgx/v5/..."},
	"internal/sqltext":        {},
	"internal/devpg":          {"github.com/jackc/pgx/v5/...", "github.com/fergusstrange/embedded-postgres"},
	"internal/devpg/withpg":   {module + "/internal/devpg"},
	"internal/delayproxy":     {},
	"internal/faultconn":      {},
	"internal/pgturns":        {},
	"internal/dbtest":         {module + "/internal/devpg", module + "/migrations", "github.com/jackc/pgx/v5/...", "github.com/peterldowns/pgtestdb", "github.com/riverqueue/river/rivermigrate", "github.com/riverqueue/river/riverdriver/riverpgxv5", "go.uber.org/goleak"},
	"examples/quickstart/...": {"..."}, // a program: it may use all of the library, and is imported by nobody
	"examples/webhooks":       {"..."}, // a program, as above
	"examples/sqlc":           {module + "/txidem", module + "/examples/sqlc/db", "github.com/jackc/pgx/v5"},
	"examples/sqlc/db":        {"github.com/jackc/pgx/v5/..."},
}

func TestImports_OnlyAllowedOnes(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || isModule(file)) {
				return filepath.SkipDir // no packages, or a module of its own
			}
			return nil
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			checkImports(t, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func checkImports(t *testing.T, file string) {
	pkg := path.Dir(filepath.ToSlash(file))
	rules, ok := rulesFor(pkg)
	if !ok {
		t.Errorf("%s: package %s is not in the list of what may import what", file, pkg)
		return
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Error(err)
			continue
		}
		standard := !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
		if !standard && !slices.ContainsFunc(rules, func(rule string) bool { return covers(rule, imported) }) {
			t.Errorf("%s: package %s may not import %s", file, pkg, imported)
		}
	}
}

func rulesFor(pkg string) ([]string, bool) {
	for pattern, rules := range allowed {
		if covers(pattern, pkg) {
			return rules, true
		}
	}
	return nil, false
}

// covers reports whether the pattern names the path: itself, or with /... all below it as well.
func covers(pattern, name string) bool {
	if prefix, below := strings.CutSuffix(pattern, "..."); below {
		return name == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// TestImports_RulesBite proves that the check can fail.
func TestImports_RulesBite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"toolcall", "toolcall", true},
		{"toolcall", "toolcall/sub", false},
		{"github.com/jackc/pgx/v5/...", "github.com/jackc/pgx/v5/pgxpool", true},
		{"github.com/jackc/pgx/v5/...", "github.com/jackc/pgx/v5", true},
		{"github.com/jackc/pgx/v5/...", "github.com/jackc/pgx/v55", false},
		{"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool", false},
	} {
		if got := covers(c.pattern, c.name); got != c.want {
			t.Errorf("covers(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
	if _, ok := rulesFor("txidem/other"); ok {
		t.Error("an unlisted package has rules")
	}
}
