package peers

import (
	"flag"
	"os"
	"testing"

	"github.com/txonce/txonce/internal/dbtest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

func TestMain(m *testing.M) {
	if plan := os.Getenv(childEnv); plan != "" {
		os.Exit(serveStdio(plan))
	}
	dbtest.Main(m)
}
