package txonce

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs_RetriesNamesTestsThatExist holds docs/retries.md to what it says: each proof is a test of this repository.
func TestDocs_RetriesNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("docs", "retries.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Example)[A-Z]\\w*)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Errorf("the page names %d tests; is its form another one now?", len(named))
	}
	for _, match := range named {
		if !tests[match[1]] {
			t.Errorf("docs/retries.md names %s, and there is no such test", match[1])
		}
	}
}

// testNames are the top-level tests of all packages.
func testNames(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w+)\(`)
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
