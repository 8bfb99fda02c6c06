package statustool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/txonce/txonce/toolcall"
)

// The arguments of the tool.
const (
	argID   = "id"
	argTool = "tool"
	argKey  = "idempotency_key"
	argWait = "wait_seconds"
)

const (
	longestKey = 255
	// keyPrefix marks the keys that callers give among those that identify calls: toolcall.Call.Key.
	keyPrefix = "x:"
)

// arguments are what somebody asks by. What is empty was not given.
type arguments struct {
	id, tool, key string
	wait          float64

	variant bool // of a tool that answers for one tool only, which stands in tool
}

// read returns a sentence about what is wrong, or "". A null stands for what is absent, as some clients send it.
func (a *arguments) read(raw json.RawMessage, allowed []string) (problem string) {
	members := make(map[string]json.RawMessage)
	if len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, &members); err != nil {
			return "The arguments are not a JSON object."
		}
	}
	var names []string
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := bytes.TrimSpace(members[name])
		switch {
		case !slices.Contains(allowed, name):
			return fmt.Sprintf("There is no argument %s; the arguments are %s.", quoted(name), list(allowed, "and"))
		case string(value) == "null":
		case name == argWait:
			if json.Unmarshal(value, &a.wait) != nil {
				return "The argument wait_seconds is not a number."
			}
		default:
			if problem := a.text(name, value); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func (a *arguments) text(name string, value json.RawMessage) (problem string) {
	at := map[string]*string{argID: &a.id, argTool: &a.tool, argKey: &a.key}[name]
	switch {
	case json.Unmarshal(value, at) != nil:
		return fmt.Sprintf("The argument %s is not a string.", name)
	case *at == "":
		return fmt.Sprintf("The argument %s is empty; give it or leave it out.", name)
	}
	return ""
}

// asked is an understood question.
type asked struct {
	ask  toolcall.Ask
	wait time.Duration
}

// ask makes a question of the arguments. tools are the names of the protected tools.
func (a *arguments) ask(scope string, tools []string, longest time.Duration) (asked, string) {
	q := asked{ask: toolcall.Ask{Scope: scope}, wait: waitFor(a.wait, longest)}
	if a.key != "" {
		switch {
		case a.tool == "":
			return q, "An idempotency_key alone does not name a call; give the tool that was called as well."
		case !slices.Contains(tools, a.tool):
			return q, fmt.Sprintf("There is no protected tool %s; the tools are %s.", quoted(a.tool), list(tools, "and"))
		case !isKey(a.key):
			return q, "The argument idempotency_key is no key: keys have 1 to 255 bytes of printable text."
		}
		q.ask.ID = toolcall.NewID(scope, a.tool, keyPrefix+a.key)
	}
	if a.id == "" {
		return q, a.missing()
	}
	id, err := toolcall.ParseID(a.id)
	switch {
	case err != nil:
		return q, fmt.Sprintf("The argument id is %s, which is no id of a call or a job; take the call_id or job_id of an answer, which is a UUID.", quoted(a.id))
	case a.key != "" && id != q.ask.ID:
		return q, "The arguments contradict each other: id is not the call of this tool with this idempotency_key. Give id, or give tool and idempotency_key."
	}
	q.ask.ID = id
	return q, ""
}

func (a *arguments) missing() (problem string) {
	switch {
	case a.key != "":
		return ""
	case a.variant:
		return "Give id, the call_id or job_id of an answer, or give idempotency_key, that of the call."
	}
	return "Give id, the call_id or job_id of an answer, or give tool and idempotency_key, those of the call."
}

// waitFor takes what is out of range for the nearest that is not: a model that wants to wait longer is best served by that.
func waitFor(seconds float64, longest time.Duration) time.Duration {
	return time.Duration(min(max(seconds, 0), longest.Seconds()) * float64(time.Second))
}

// isKey has the rules of the protected tools.
func isKey(key string) bool {
	return len(key) <= longestKey && utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) })
}

const longestQuote = 60

// quoted shows what was given, but not much of it.
func quoted(s string) string {
	if len(s) > longestQuote {
		s = strings.ToValidUTF8(s[:longestQuote], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}

// list writes names as people do: "a, b and c".
func list(names []string, and string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + and + " " + names[last]
}
