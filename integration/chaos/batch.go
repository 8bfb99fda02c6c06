package main

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// orderRules say which members of an order count, for the tool that makes its calls by itself.
func orderRules() txidem.RuleSpec { return txidem.RuleSpec{Args: reflect.TypeFor[order]()} }

// batch is a tool whose call is made by RunBatch, which the adapter has no form for. It answers as the adapter's tools do.
func (s *serving) batch(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in order
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	key, _ := req.Params.Meta[mcpidem.MetaKey].(string)
	r, err := txidem.RunBatch(ctx, s.store, txidem.Request{Scope: scope, Tool: string(batch), Key: key, Args: req.Params.Arguments, Rules: s.rules},
		func(ctx context.Context, b *txidem.Batch) (receipt, error) {
			r := newReceipt(in)
			b.Queue(sqlEffect, in.Intent, in.Payload, in.Try, r.Run)
			return r, end(ctx, in)
		})
	result := &mcp.CallToolResult{Meta: mcp.Meta{mcpidem.MetaCallID: r.ID.String(), mcpidem.MetaReplayed: r.Replayed}}
	if err == nil {
		result.Content = []mcp.Content{&mcp.TextContent{Text: string(r.Raw)}}
		return result, nil
	}
	result.IsError, result.StructuredContent = true, refusalOf(err)
	result.Content = []mcp.Content{&mcp.TextContent{Text: err.Error()}}
	return result, nil
}

// refusal is the part of a refusal that agents read.
type refusal struct {
	Status  string `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The statuses of refusals that agents expect, as the adapter has them.
const (
	statusFailed     = "failed"
	statusInProgress = "in_progress"
	statusKeyReused  = "key_reused"
	statusUnknown    = "outcome_unknown"
	statusNotDone    = "not_done"
	statusDown       = "unavailable"
	statusFault      = "tool_fault" // also where Postgres has ended the transaction of a handler that was stopped for too long
)

func refusalOf(err error) refusal {
	said := refusal{Status: statusFault, Message: err.Error()}
	failure := (*toolcall.Failure)(nil)
	switch {
	case errors.Is(err, txidem.ErrOutcomeUnknown): // whatever it wraps
		said.Status = statusUnknown
	case errors.As(err, &failure):
		said.Status, said.Code, said.Message = statusFailed, failure.Code, failure.Error()
	case errors.Is(err, txidem.ErrInProgress):
		said.Status = statusInProgress
	case errors.Is(err, txidem.ErrKeyReused):
		said.Status = statusKeyReused
	case errors.Is(err, txidem.ErrUnavailable):
		said.Status = statusDown
	case errors.Is(err, txidem.ErrIdleTooLong):
		said.Message = "Nothing was changed by this call."
	case txidem.Retryable(err):
		said.Status = statusNotDone
	}
	return said
}

// rewrite is a mistake that servers can be told to make: a replayed answer is not the first one.
func rewrite(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		called, ok := result.(*mcp.CallToolResult)
		if err != nil || !ok || called.Meta[mcpidem.MetaReplayed] != true || called.IsError {
			return result, err
		}
		var r map[string]any
		text, ok := called.Content[0].(*mcp.TextContent)
		if !ok || json.Unmarshal([]byte(text.Text), &r) != nil {
			return result, err
		}
		r["run"] = "another"
		raw, err := json.Marshal(r)
		called.Content[0] = &mcp.TextContent{Text: string(raw)}
		return called, err
	}
}
