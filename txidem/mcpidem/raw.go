package mcpidem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/txidem"
)

// RawHandler is the full form of a tool's handler: it sees the request and makes the result. The request's arguments fit
// the input schema, have its defaults and no idempotency_key.
//
// A result is committed and recorded whole, with its _meta, and replayed. One with IsError rolls back, is given to the
// client and not recorded: [txidem.Fail] is for outcomes that are. So is one with InputRequests, with which the client asks a
// person or its model and calls again: the handler then finds what was said in Params.InputResponses. Take nothing for granted in them: the
// client made them, and RequestState is whatever the client sends back. A call that a person has confirmed (ToolConfig.Confirm) cannot
// have InputRequests of its own: the client's next answer would come without the confirmation.
type RawHandler func(ctx context.Context, tx pgx.Tx, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// AddToolRaw adds a tool with a handler in the full form, for content other than JSON, results with a _meta of their own, and
// input that is asked for. It needs an input schema; an output schema, if there is one, holds for StructuredContent. A nil
// cfg means the defaults. Else as [AddToolWith].
func AddToolRaw(a *Adapter, t *mcp.Tool, cfg *ToolConfig, h RawHandler) {
	if t != nil && t.InputSchema == nil {
		panic(fmt.Errorf("mcpidem: tool %q: it has no input schema, and AddToolRaw has no type to make one of", t.Name))
	}
	def := mustDefine(a, t, cfg, nil, nil, h != nil)
	def.handle = func(ctx context.Context, req *mcp.CallToolRequest, call txidem.Request, gate error) (txidem.Result[json.RawMessage], error) {
		return txidem.Run(ctx, a.store, call, func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
			args, err := def.in.normal(call.Args)
			if err != nil {
				return nil, err
			}
			if gate != nil {
				return nil, gate
			}
			result, err := h(ctx, tx, ownRequest(req, args))
			if err != nil {
				return nil, realError(err)
			}
			if result != nil && result.InputRequests != nil && def.wasAsked(req) {
				return nil, errAsksAgain
			}
			return def.out.keep(result)
		})
	}
	def.add()
}

// errAsksAgain is for people: a person would be asked the same again and again.
var errAsksAgain = fmt.Errorf("%w: InputRequests of a call that was confirmed; ask for everything in front of the call, or do without ToolConfig.Confirm", txidem.ErrAnswer)

// wasAsked reports whether the call comes with a person's word.
func (d *definition) wasAsked(req *mcp.CallToolRequest) bool {
	_, asked := req.Params.InputResponses[confirmRequest]
	return d.cfg.Confirm != nil && asked
}

// ownRequest is the handler's to write into: it may run again in the same call, and a continuation has the request's own arguments.
func ownRequest(req *mcp.CallToolRequest, args json.RawMessage) *mcp.CallToolRequest {
	own, params := *req, *req.Params
	params.Arguments, params.Meta, params.InputResponses = bytes.Clone(args), maps.Clone(params.Meta), maps.Clone(params.InputResponses)
	own.Params = &params
	return &own
}

// unrecorded is the error of a call that rolls back and whose result the client gets all the same: it did not do its work, or
// something has to be asked first (M06).
type unrecorded struct{ result *mcp.CallToolResult }

func (*unrecorded) Error() string { return "mcpidem: a result that is not recorded" }

// fullForm is how the record of a result in the full form begins, and no other: a deploy may give a tool a handler in the
// other form, and the answers that were given before stay what they are (I2).
const fullForm = `{"dev.txonce/result":`

// keep makes the bytes that are recorded of a result. What could not be read again is found out here, while there is a
// transaction to roll back.
func (o *output) keep(result *mcp.CallToolResult) (json.RawMessage, error) {
	switch {
	case result == nil:
		return nil, fmt.Errorf("%w: the handler returned no result", txidem.ErrAnswer)
	case result.IsError, result.InputRequests != nil:
		return nil, &unrecorded{result}
	}
	kept := *result
	if kept.StructuredContent != nil || o.resolved != nil {
		structured, err := o.encode(kept.StructuredContent)
		if err != nil {
			return nil, err
		}
		kept.StructuredContent = structured
	}
	raw, err := marshal(&kept)
	if err == nil {
		_, err = readResult(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", txidem.ErrAnswer, err)
	}
	return slices.Concat([]byte(fullForm), raw, []byte("}")), nil
}

func readResult(raw []byte) (*mcp.CallToolResult, error) {
	var result mcp.CallToolResult
	var exact struct {
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := errors.Join(json.Unmarshal(raw, &result), json.Unmarshal(raw, &exact)); err != nil {
		return nil, err
	}
	if exact.StructuredContent != nil { // numbers keep their digits
		result.StructuredContent = exact.StructuredContent
	}
	return &result, nil
}

// recordedResult makes a result of what is recorded, also for the first answer: so the two cannot differ.
func recordedResult(r txidem.Result[json.RawMessage]) (*mcp.CallToolResult, error) {
	result, err := readResult(bytes.TrimSuffix(bytes.TrimPrefix(r.Raw, []byte(fullForm)), []byte("}")))
	if err != nil {
		return nil, fmt.Errorf("%w: the result of the tool: %w", txidem.ErrRecord, err)
	}
	if result.Meta == nil {
		result.Meta = make(mcp.Meta)
	}
	for _, ours := range [...]string{MetaCallID, MetaReplayed, MetaFinishedAt} { // a handler may hand on another server's result
		delete(result.Meta, ours)
	}
	maps.Copy(result.Meta, metaOf(r))
	if r.Replayed {
		result.Content = append(result.Content, replayedNote(r))
	}
	return result, nil
}
