package mcpidem_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

func TestExtension_M01_ServerAndToolsSayHowLongCallsAreKept(t *testing.T) {
	t.Parallel()
	for _, version := range []string{legacy, modern} {
		s := newShop(t, nil, version)
		mcpidem.AddToolWith(s.idem, &mcp.Tool{Name: "own", Meta: mcp.Meta{"example.com/x": "y"}},
			&mcpidem.ToolConfig{Key: mcpidem.KeyRequired, Policy: &txidem.Policy{Retention: 48 * time.Hour, Window: 90 * time.Second}}, guarded)
		session := s.connect(nil)
		got := session.InitializeResult().Capabilities.Extensions[mcpidem.Extension]
		want := any(map[string]any{"retentionSeconds": 86400.0, "windowSeconds": 600.0, "metaKey": "dev.txonce/idempotency-key", "header": "Idempotency-Key"})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the capability (-want +got):\n%s", version, diff)
		}
		wantMeta := mcp.Meta{"example.com/x": "y", mcpidem.Extension: map[string]any{
			"retentionSeconds": 172800.0, "windowSeconds": 90.0, "class": "guarded", "key": "required",
		}}
		if diff := cmp.Diff(wantMeta, s.tool("own").Meta); diff != "" {
			t.Errorf("%s: the tool's _meta (-want +got):\n%s", version, diff)
		}
	}
}
