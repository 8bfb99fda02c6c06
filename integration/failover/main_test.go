package failover

import (
	"testing"
	"time"

	"github.com/txonce/txonce/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// patience bounds what must happen some day: a hang detector. On a busy machine, a failover with its connections takes a while.
const patience = 2 * time.Minute

// eventually polls for what only servers know.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
