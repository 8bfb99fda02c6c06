package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/txonce/txonce/toolcall"
	"github.com/txonce/txonce/txidem"
	"github.com/txonce/txonce/txidem/mcpidem"
)

// The tools of the server. All of them have the same effect, so that only the name tells them apart.
const (
	toolRefund    = "issue_refund"
	toolCharge    = "charge_card"
	toolConfirmed = "refund_confirmed" // a person has to say yes
)

type refund struct {
	Order string `json:"order"`
	Cents int64  `json:"cents"`
	Memo  string `json:"memo,omitempty" idem:"-"`
}

// receipt differs each time a handler runs, and has bytes that a careless replay would change.
type receipt struct {
	Refund int64 `json:"refund"`
	Cents  int64 `json:"cents"`
	Quirks any   `json:"quirks"`
}

const quirks = `{"z":1e2,"a":1.0,"big":9007199254740993,"html":"<b>&amp;\u00fc\u2028</b>","none":null,"empty":[]}`

// A handler does what its order's name begins with: these, or it answers with a receipt.
const (
	orderHold   = "hold"   // waits at the gate, in its transaction
	orderClosed = "closed" // fails for good
	orderPanic  = "panic"
)

const (
	sqlTable   = `create table refund (id bigserial primary key, scope text not null, tool text not null, order_id text not null, cents bigint not null)`
	sqlRefund  = `insert into refund (scope, tool, order_id, cents) values ($1, $2, $3, $4) returning id`
	sqlEffects = `select count(*) from refund where order_id = $1 and ($2 = '' or scope = $2)`
)

// plan is what a server has to know. It reaches servers of their own process as JSON.
type plan struct {
	Database  string        // URL, for servers of their own process
	Gate      string        // URL
	Revisions []string      // of the protocol; all that the SDK has, if empty
	Wait      time.Duration // of duplicates
	Progress  time.Duration
	Scope     string // the caller; callers are told apart by their tokens, if empty
}

// secret signs confirmations.
var secret = []byte(strings.Repeat("peers", 8))

// newServer makes a server with protected tools on the pool.
func newServer(pool *pgxpool.Pool, p plan) (*mcp.Server, error) {
	store, err := txidem.New(pool, &txidem.Config{Policy: &txidem.Policy{Wait: p.Wait}})
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "billing", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: p.Revisions, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	scope := mcpidem.ScopeIs(p.Scope)
	if p.Scope == "" {
		scope = mcpidem.ScopeFromToken
	}
	idem, err := mcpidem.New(server, store, &mcpidem.Config{Scope: scope, Secret: secret, Progress: p.Progress})
	if err != nil {
		return nil, err
	}
	for _, name := range []string{toolRefund, toolCharge} {
		mcpidem.AddTool(idem, &mcp.Tool{Name: name, Description: "Moves money."}, billing{name, p.Gate}.handle)
	}
	mcpidem.AddToolWith(idem, &mcp.Tool{Name: toolConfirmed, Description: "Moves money."}, &mcpidem.ToolConfig{
		Confirm: mcpidem.ConfirmArgs(func(_ context.Context, in refund) (string, error) {
			return fmt.Sprintf("Refund %d cents for order %s?", in.Cents, in.Order), nil
		}),
	}, billing{toolConfirmed, p.Gate}.handle)
	return server, nil
}

// billing is the handler of a tool.
type billing struct{ tool, gate string }

func (b billing) handle(ctx context.Context, tx pgx.Tx, in refund) (receipt, error) {
	var id int64
	made, _ := toolcall.FromContext(ctx)
	err := tx.QueryRow(ctx, sqlRefund, made.Scope, b.tool, in.Order, in.Cents).Scan(&id)
	if err != nil {
		return receipt{}, err
	}
	switch name, _, _ := strings.Cut(in.Order, "-"); name {
	case orderHold:
		if err := pass(ctx, b.gate, in.Order); err != nil {
			return receipt{}, err
		}
	case orderClosed:
		return receipt{}, txidem.Fail("order_closed", fmt.Sprintf("order %s is closed (run %d)", in.Order, id))
	case orderPanic:
		panic(fmt.Sprintf("secret detail of run %d", id))
	}
	return receipt{Refund: id, Cents: in.Cents, Quirks: json.RawMessage(quirks)}, nil
}
