package outbox_test

import (
	"os"
	"testing"

	"github.com/txonce/txonce/internal/dbtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		child(url)
	}
	dbtest.Main(m)
}
