package statustool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// typed is a source that says what the results of its jobs look like, by their kinds. A *jobs.Runner is one.
type typed interface {
	Results() map[string]reflect.Type
}

// inputSchema is for the tool, or, where only is not empty, for the variant that answers for that tool.
func inputSchema(tools []string, only string, longest time.Duration, messages bool) *jsonschema.Schema {
	zero, most, one, longestText := 0.0, longest.Seconds(), 1, longestKey
	properties := map[string]*jsonschema.Schema{
		argID: {Type: "string", Description: "id of the call or of the job: call_id or job_id of an answer"},
		argKey: {
			Type: "string", MinLength: &one, MaxLength: &longestText,
			Description: "in place of id, together with tool: the idempotency_key that the call was made with",
		},
		argWait: {
			Type: "number", Minimum: &zero, Maximum: &most, Default: json.RawMessage("0"),
			Description: fmt.Sprintf("how long to wait for the end, if it has not ended yet: up to %v", most),
		},
	}
	if messages {
		properties[argWait].Description += "; messages that it sends are not waited for"
	}
	if only != "" {
		properties[argKey].Description = "in place of id: the idempotency_key that the call was made with"
		return &jsonschema.Schema{Type: "object", Properties: properties, PropertyOrder: []string{argID, argKey, argWait}}
	}
	properties[argTool] = &jsonschema.Schema{Type: "string", Description: "together with idempotency_key: the tool that was called", Enum: enum(tools)}
	return &jsonschema.Schema{Type: "object", Properties: properties, PropertyOrder: []string{argID, argTool, argKey, argWait}}
}

// enum is nil for no names: an empty one would allow nothing.
func enum[S ~string](names []S) []any {
	var values []any
	for _, name := range names {
		values = append(values, string(name))
	}
	return values
}

// outputSchema describes a [Report], with the results that the tools and the jobs have, and with messages if it may have any.
func outputSchema(result *jsonschema.Schema, messages bool) *jsonschema.Schema {
	state := aText("how far it is")
	state.Enum = enum(states[:])
	members := []member{
		{"state", state},
		{"id", aText("id of the call or of the job")},
		{"tool", aText("the tool that was called, or the kind of the job")},
		{"next", aText("what happened and what to do next; do that")},
		{"retry_after_seconds", aNumber("when it makes sense to ask again")},
		{"result", result},
		{"failure", describe("why it failed", object([]string{"code", "message"}, member{"code", aText("for programs")}, member{"message", aText("for people and models")}))},
		{"progress", describe("what the job reported last", object([]string{"fraction"},
			member{"fraction", &jsonschema.Schema{Type: "number", Description: "0 to 1"}}, member{"message", aText("what it is doing")}, member{"at", aTime("when it said so")}))},
		{"attempts", aNumber("how often the job was begun")},
		{"max_attempts", aNumber("how often it may be")},
		{"cancel_requested", aFlag("the job was asked to stop")},
		{"submitted_at", aTime("when the job was submitted")},
		{"started_at", aTime("when its first attempt began")},
		{"next_attempt_at", aTime("when its next attempt is due")},
		{"deadline", aTime("when it fails if it has not ended")},
		{"finished_at", aTime("when it ended")},
	}
	if messages {
		members = append(members, messageMembers()...)
	}
	return object([]string{"state", "next"}, members...)
}

func aText(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func aTime(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date-time", Description: description}
}

func aNumber(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Description: description}
}

func aFlag(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "boolean", Description: description}
}

type member struct {
	name   string
	schema *jsonschema.Schema
}

func object(required []string, members ...member) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Required: required, Properties: make(map[string]*jsonschema.Schema)}
	for _, m := range members {
		s.Properties[m.name] = m.schema
		s.PropertyOrder = append(s.PropertyOrder, m.name)
	}
	return s
}

func describe(description string, s *jsonschema.Schema) *jsonschema.Schema {
	s.Description = description
	return s
}

// resultSchema is any of the results that the tools and the jobs promise, or another: a record may be older than what is
// promised now, and a client that checks answers must let it pass.
func resultSchema(tools []*mcp.Tool, kinds map[string]reflect.Type) *jsonschema.Schema {
	any := []*jsonschema.Schema{}
	for _, t := range tools {
		if s := schemaOf(t.OutputSchema); s != nil {
			s.Title = "answer of " + t.Name
			any = append(any, s)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		inferred, err := jsonschema.ForType(kinds[kind], &jsonschema.ForOptions{})
		if err != nil {
			continue // a type without a schema is any other result
		}
		if s := schemaOf(inferred); s != nil {
			s.Title = "result of the job " + kind
			any = append(any, s)
		}
	}
	any = append(any, &jsonschema.Schema{Title: "another", Description: "such as the answer of an earlier version of the tool"})
	return &jsonschema.Schema{Description: "what came of it, if state is succeeded", AnyOf: any}
}

// schemaOf returns a copy of a schema that can stand inside another one, or nil: references and identifiers cannot be moved.
func schemaOf(given any) *jsonschema.Schema {
	raw, err := json.Marshal(given)
	if err != nil || string(raw) == "null" || bytes.Contains(raw, []byte(`"$`)) {
		return nil
	}
	s := &jsonschema.Schema{}
	if json.Unmarshal(raw, s) != nil {
		return nil
	}
	return s
}

// description is what models read of the tool.
func description(tools []string, only string, messages bool) string {
	of := "of the protected tools (" + list(tools, "and") + ")"
	by := "its id (call_id or job_id of an answer), or by tool and idempotency_key"
	if only != "" {
		of, by = "of "+only, "its id (call_id or job_id of an answer), or by its idempotency_key"
	}
	gives := "and gives its result"
	if messages {
		gives = "gives its result, and tells whether the messages that it sends were delivered"
	}
	return "Tells what became of a call " + of + " or of a job that it submitted, " + gives + ". It changes nothing. " +
		"Ask here instead of repeating a call when its answer was lost, when it is still running, or when it submitted a job. " +
		"Name it by " + by + ". With wait_seconds it waits for the end, so there is no need to ask often. Do what next says."
}

const cancelDescription = "Cancels a job, given its id: the job_id that the tool answered which submitted it. A job that waits ends at once, " +
	"one that runs as soon as it notices; one that has ended stays as it is. Doing it twice does no more. A call that is not a job cannot be cancelled. Do what next says."

func namesOf(tools []*mcp.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// isHandle reports whether a tool promises the handle of a job.
func isHandle(t *mcp.Tool) bool {
	raw, err := json.Marshal(t.OutputSchema)
	return err == nil && strings.Contains(string(raw), `"job_id"`)
}
