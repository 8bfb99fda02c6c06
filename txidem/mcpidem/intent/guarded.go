package intent

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/idemkey"
)

// Guarded makes a [Config].Tools of what a server says of its tools (session.ListTools): true for those that package mcpidem
// protects there, and for no other. A server that you do not trust may say so without keeping to it.
func Guarded(tools ...*mcp.Tool) func(name string) bool {
	guarded := make(map[string]bool)
	for _, t := range tools {
		said, _ := t.Meta[idemkey.Extension].(map[string]any)
		if said["class"] == idemkey.Guarded {
			guarded[t.Name] = true
		}
	}
	return func(name string) bool { return guarded[name] }
}
