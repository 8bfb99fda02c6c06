package mcpidem

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// The _meta of results.
const (
	// MetaCallID is the id under which the outcome is recorded.
	MetaCallID = "dev.txonce/call-id"
	// MetaReplayed is true on an answer that an earlier call was given.
	MetaReplayed = "dev.txonce/replayed"
	// MetaFinishedAt is when the work was done, RFC 3339, by the database's clock.
	MetaFinishedAt = "dev.txonce/finished-at"
)

// keyArgumentText is the description of the reserved argument.
func keyArgumentText(key KeyArgument, unprotected bool) string {
	if unprotected {
		return "It does not make repeating this call safe at the moment."
	}
	const rest = "repeating this call safe: choose a new one, such as a UUID, for each new intent, and give the same one each time you repeat the call for the same intent."
	if key == KeyRequired {
		return "Key that makes " + rest + " Always give one."
	}
	return "Optional key that makes " + rest
}

// describe adds to a tool's description what its callers may rely on.
func describe(description string, cfg *ToolConfig, keep keep) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(description))
	if b.Len() > 0 {
		b.WriteString("\n\n")
	}
	if keep.unprotected {
		b.WriteString("Repeating a call is not safe at the moment: each call is done again.")
		return b.String() + confirmText(cfg)
	}
	b.WriteString("Repeating a call is safe: the same call is done once, and its repetition gets the same answer. Calls are the same ")
	switch cfg.Key {
	case KeyOff:
		fmt.Fprintf(&b, "for %s when their arguments are the same.", span(keep.window))
	case KeyRequired:
		fmt.Fprintf(&b, "for %s when their idempotency_key is the same. Give a new idempotency_key for each new intent.", span(keep.retention))
	default:
		fmt.Fprintf(&b, "for %s when their idempotency_key is the same, or for %s when they have none and their arguments are the same. "+
			"To do the same thing once more on purpose, give a new idempotency_key.", span(keep.retention), span(keep.window))
	}
	if keep.forGood {
		b.WriteString(" When that time is over, the same call is refused and never done again.")
	}
	return b.String() + confirmText(cfg)
}

func confirmText(cfg *ToolConfig) string {
	if cfg.Confirm == nil {
		return ""
	}
	return " A person may be asked to confirm the call before it is done."
}

// answer makes a result of what is recorded, in whichever form the handler of the time was.
func answer(r txidem.Result[json.RawMessage]) (*mcp.CallToolResult, error) {
	if bytes.HasPrefix(r.Raw, []byte(fullForm)) {
		return recordedResult(r)
	}
	return succeeded(r), nil
}

// succeeded makes a new result each time: the SDK writes into it.
func succeeded(r txidem.Result[json.RawMessage]) *mcp.CallToolResult {
	result := &mcp.CallToolResult{
		Meta:              metaOf(r),
		Content:           []mcp.Content{&mcp.TextContent{Text: string(r.Raw)}},
		StructuredContent: r.Raw,
	}
	if string(r.Raw) == "null" { // a tool that answers nothing
		result.StructuredContent = nil
		result.Content = []mcp.Content{}
	}
	if r.Replayed {
		result.Content = append(result.Content, replayedNote(r))
	}
	return result
}

// replayedNote stands behind the answer that an earlier call was given.
func replayedNote(r txidem.Result[json.RawMessage]) *mcp.TextContent {
	return &mcp.TextContent{Text: fmt.Sprintf(
		"(Recorded answer: this call was done once, at %s, and was not done again.)", r.FinishedAt.UTC().Format(time.RFC3339))}
}

func metaOf(r txidem.Result[json.RawMessage]) mcp.Meta {
	meta := mcp.Meta{MetaCallID: r.ID.String()}
	if !r.FinishedAt.IsZero() {
		meta[MetaFinishedAt] = r.FinishedAt.UTC().Format(time.RFC3339Nano)
	}
	if r.Replayed {
		meta[MetaReplayed] = true
	}
	return meta
}

// span writes a duration as people do: "24 hours", "90 seconds".
func span(d time.Duration) string {
	for _, unit := range [...]struct {
		size, least time.Duration
		name        string
	}{
		{24 * time.Hour, 48 * time.Hour, "day"},
		{time.Hour, time.Hour, "hour"},
		{time.Minute, time.Minute, "minute"},
		{time.Second, time.Second, "second"},
	} {
		if d >= unit.least && d%unit.size == 0 {
			return count(int64(d/unit.size), unit.name)
		}
	}
	return d.String()
}

func count(n int64, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
