package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// journal is what really happened to each call: what the network did, what the server answered, what the agent heard.
// The figures of the demo are counted from it and from the database.
type journal struct {
	mu      sync.Mutex
	entries map[callName]*entry
}

// entry is one call of the agent.
type entry struct {
	name     callName
	tool     string
	fault    fault
	arrivals []arrival // more than one where the network sent it twice
	heard    string    // by the agent, in a few words
	got      answer    // by the agent; its kind is nothing if none came
	rows     int       // of the intent in the database, when the agent stopped waiting
}

// arrival is a tools/call request that came to the server's door, and its answer.
type arrival struct{ answer answer }

func newJournal() *journal { return &journal{entries: make(map[callName]*entry)} }

// change lets f write into the call's entry.
func (j *journal) change(name callName, f func(*entry)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.entries[name]
	if !ok {
		e = &entry{name: name}
		j.entries[name] = e
	}
	f(e)
}

func (j *journal) met(name callName, f fault) { j.change(name, func(e *entry) { e.fault = f }) }

// sorted returns the calls in order.
func (j *journal) sorted() []*entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.entries), func(a, b *entry) int {
		return cmp.Or(a.name.intent-b.name.intent, a.name.attempt-b.name.attempt, a.name.copy-b.name.copy)
	})
}

// watch stands at the server's door, in front of its tools: every tools/call that arrives is counted, and every
// answer, whether or not it reaches anybody.
func (j *journal) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		var name callName
		named := false
		if extra := req.GetExtra(); method == "tools/call" && extra != nil {
			name, named = parseName(extra.Header.Get(nameHeader))
		}
		if !named {
			return next(ctx, method, req)
		}
		var nth int
		j.change(name, func(e *entry) {
			nth = len(e.arrivals)
			e.arrivals = append(e.arrivals, arrival{})
		})
		result, err := next(ctx, method, req)
		params, _ := req.GetParams().(*mcp.CallToolParamsRaw)
		if said, ok := result.(*mcp.CallToolResult); ok && err == nil && params != nil {
			a := readAnswer(params.Name, said)
			j.change(name, func(e *entry) { e.arrivals[nth].answer = a })
		}
		return result, err
	}
}
