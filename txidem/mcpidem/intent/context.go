package intent

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/internal/idemkey"
)

type intentKey struct{}

// named is what a context says of the intent of calls.
type named struct {
	run, step string
	key       string // the caller's own; run and step are "" then
	isKey     bool
}

// WithStep names the step of a run that calls with the context belong to. Both come from the checkpoint that a resumed run
// starts from, and neither may be empty; never use what a model or a retry makes anew, such as a tool-call id.
//
// Run, step and tool make the key. Two calls of the same tool in one step would be one call: name the second one with [Nth].
func WithStep(ctx context.Context, run, step string) context.Context {
	return context.WithValue(ctx, intentKey{}, named{run: run, step: step})
}

// WithKey gives calls with the context a key of the caller's own, such as what is done to which order line: 1 to 255 bytes
// of printable text. It takes the place of a step. Another tool with the same key is another call.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, intentKey{}, named{key: key, isKey: true})
}

// Nth names the n-th call within a step: WithStep(ctx, run, Nth(step, 2)). Count in an order that a resumed run finds
// again, such as that of the tool calls in the model's message, if that message is in the checkpoint. Do not count the calls as they
// happen: calls that run beside each other change places.
func Nth(step string, n int) string { return step + "#" + strconv.Itoa(n) }

// errNoIntent is what a call without a step hears where Config.Require is set.
var errNoIntent = errors.New("name the step with intent.WithStep or the key with intent.WithKey, or leave Config.Require unset")

// keyFor finds the key of a call: what stands in _meta wins. It is "" where the caller named no intent.
func keyFor(ctx context.Context, params *mcp.CallToolParams) (string, error) {
	if there, ok := params.Meta[idemkey.Meta]; ok {
		key, ok := there.(string)
		if !ok || key == "" {
			return "", fmt.Errorf("intent: _meta[%q] of the call of %s must be a text of 1 to 255 bytes", idemkey.Meta, params.Name)
		}
		return key, nil
	}
	n, ok := ctx.Value(intentKey{}).(named)
	switch {
	case !ok:
		return "", nil
	case n.isKey && n.key == "":
		return "", fmt.Errorf("intent: the key of the call of %s is empty; give WithKey a key of 1 to 255 bytes", params.Name)
	case n.isKey:
		return n.key, nil
	case n.run == "" || n.step == "":
		return "", fmt.Errorf("intent: the call of %s belongs to run %q, step %q: give WithStep both, or different calls would have one key", params.Name, n.run, n.step)
	}
	return idemkey.Intent(n.run, n.step, params.Name), nil
}
