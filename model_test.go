package txonce

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestModels_R19_ClaimLeaseAndFence checks the smallest model, and that its mutants are caught. `make model` checks all of them, and
// is part of what each change must pass; where Spin is not installed, only that each mutant is one.
func TestModels_R19_ClaimLeaseAndFence(t *testing.T) {
	t.Parallel()
	models, err := filepath.Glob("docs/model/*.pml")
	if err != nil || len(models) < 4 {
		t.Fatalf("there are %d models (%v)", len(models), err)
	}
	named := regexp.MustCompile(`(?m)^ \*   ([A-Z][A-Z_+]*)  `)
	for _, model := range models {
		text, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		mutants := named.FindAllStringSubmatch(string(text), -1)
		if len(mutants) < 3 {
			t.Errorf("%s has %d mutants, want 3 or more", model, len(mutants))
		}
		for _, mutant := range mutants {
			for name := range strings.SplitSeq(mutant[1], "+") {
				if !strings.Contains(string(text), "#ifdef "+name+"\n") && !strings.Contains(string(text), "#ifndef "+name+"\n") {
					t.Errorf("%s: nothing depends on %s", model, name)
				}
			}
		}
	}
	if _, err := exec.LookPath("spin"); err != nil {
		t.Skip("Spin is not installed; make model installs it")
	}
	if testing.Short() {
		t.Skip("make model checks this model as well; not with -short, for .ci/run does that")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "scripts/model.sh", "job.pml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "errors=0 ") {
		t.Errorf("%v\n%s", err, out)
	}
}
