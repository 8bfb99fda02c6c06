package faults

import (
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/txonce/txonce/integration/internal/servers"
	"github.com/txonce/txonce/internal/devpg"
)

// patience bounds waiting for what should happen soon, on a busy machine.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // some of the proxy's illnesses log to nobody's logger
	servers.Main(m,                          // a connection that limit_data has ended keeps the goroutines in front of it
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"))
}

// common are the servers of tests that leave them whole, by place. They end with [servers.Main].
var common struct {
	mu sync.Mutex
	at map[string]*servers.Server
}

func shared(t *testing.T, p servers.Place) *servers.Server {
	t.Helper()
	common.mu.Lock()
	defer common.mu.Unlock()
	if s := common.at[p.Name()]; s != nil {
		return s
	}
	s, err := p.Start(t.Context(), &servers.Config{Parameters: devpg.ForTests()})
	if err != nil {
		t.Fatal(err)
	}
	if common.at == nil {
		common.at = make(map[string]*servers.Server)
	}
	common.at[p.Name()] = s
	return s
}

// eventually polls until cond is true. It is for what a server does, of which no signal reaches the test.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	giveUp := time.After(patience)
	for !cond() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-giveUp:
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
