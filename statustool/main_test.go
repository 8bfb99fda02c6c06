package statustool

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) {
	if raw := os.Getenv(processEnv); raw != "" {
		os.Exit(serve(raw))
	}
	dbtest.Main(m)
}

var update = flag.Bool("update", false, "write the golden files of what models and clients read anew")

// golden compares with a file in testdata. A change there is a change of what models do next, or of what clients parse: look at it
// as at an API, and write it anew with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s has changed (-golden +now); if it is meant, run go test ./statustool -update:\n%s", file, diff)
	}
}
