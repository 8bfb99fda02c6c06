package riverpub

import (
	"time"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/toolcall"
)

// DefaultKind is what River calls the jobs if Config.Kind does not say otherwise.
const DefaultKind = "outbox_message"

// Args are the arguments of a job: the message, as each attempt to deliver it has it. Their form as JSON is stored in River's
// table and stays readable for later versions.
type Args struct {
	ID          toolcall.ID       `json:"id" river:"unique"` // names the message
	Key         string            `json:"key"`               // the downstream idempotency key
	Destination string            `json:"destination"`
	Address     string            `json:"address,omitempty"`
	OrderingKey string            `json:"ordering_key,omitempty"`
	Type        string            `json:"type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        []byte            `json:"body,omitempty"` // byte for byte; base64 in JSON
	PublishedAt time.Time         `json:"published_at"`

	Scope string      `json:"scope,omitempty"` // who made the call that published it; empty if none did
	Call  toolcall.ID `json:"call,omitzero"`   // that call or job; zero if there was none
	Tool  string      `json:"tool,omitempty"`

	kind string
}

// ArgsOf is what to register a worker with for jobs of this kind: river.AddWorkerArgs(workers, riverpub.ArgsOf(kind), worker).
// With the default kind, river.AddWorker(workers, worker) will do.
func ArgsOf(kind string) Args { return Args{kind: kind} }

// Kind is what River asks when a worker is registered and when a job is inserted. A worker reads it from the job's row: job.Kind.
func (a Args) Kind() string {
	if a.kind == "" {
		return DefaultKind
	}
	return a.kind
}

func argsOf(d outbox.Delivery, kind string) Args {
	return Args{
		ID: d.ID, Key: d.Key, Destination: d.Destination, Address: d.Address, OrderingKey: d.OrderingKey, Type: d.Type,
		Headers: d.Headers, Body: d.Body, PublishedAt: d.PublishedAt,
		Scope: d.Scope, Call: d.Call, Tool: d.Tool, kind: kind,
	}
}
