package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Call is the protected call that is running. It is made by txidem and found in the handler's context.
type Call struct {
	ID    ID
	Scope string // who is calling
	Tool  string // what is called
	Key   string // "x:" and the caller's key, or "h:" and a hash of the arguments

	// Epoch tells this intent from an earlier one of the same identity whose record has expired, where the package that
	// made the call can know: in leased calls and jobs. It is the same for each attempt of the intent.
	Epoch string

	// Outer is the call whose handler makes this one in its own transaction, if there is one.
	Outer *Call

	mu     sync.Mutex
	over   bool
	queued []func(*pgx.Batch)
}

// ErrCallOver is returned by [Call.AtFinish] when the handler of the call has returned: what is queued then would be
// lost.
var ErrCallOver = errors.New("toolcall: the call is over; queue statements before the handler returns")

// AtFinish queues statements that run in the call's transaction after the handler has returned and before the record
// is written, in the same round trip: all of them commit with the call or none does. The function runs after the handler
// and must only queue. A statement that fails fails the call. What a result callback returns (Exec, Query, QueryRow of
// the queued query) cannot: COMMIT has been sent by then. Where a row count matters, raise an error in SQL. Queue one
// statement at a time.
func (c *Call) AtFinish(queue func(*pgx.Batch)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrCallOver
	}
	c.queued = append(c.queued, queue)
	return nil
}

// Finish is for the package that made the call: it ends the call for [Call.AtFinish] and queues on b what was put
// there. b is nil when the call does not commit.
func (c *Call) Finish(b *pgx.Batch) {
	c.mu.Lock()
	queued := c.queued
	c.over, c.queued = true, nil
	c.mu.Unlock()
	if b != nil {
		for _, queue := range queued {
			queue(b)
		}
	}
}

// DownstreamKey returns an idempotency key for a system behind this call, such as a payment provider: the same for each
// attempt of the intent, another one for each effect of it. effect names the effect within the call: "charge", or
// "mail/" and the recipient. It has 39 printable characters.
//
// Without an Epoch, which only leased calls and jobs have, the key is the identity's: should the same call be made
// again as a new intent after its record has expired, the other system may still take it for a repeat.
func (c *Call) DownstreamKey(effect string) string {
	h := sha256.New()
	for _, part := range [...]string{"downstream", c.ID.String(), c.Epoch, effect} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return "txonce-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Within reports whether the call, or one around it, has the id.
func (c *Call) Within(id ID) bool {
	for ; c != nil; c = c.Outer {
		if c.ID == id {
			return true
		}
	}
	return false
}

// Over reports whether the handler of the call has returned.
func (c *Call) Over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

type contextKey struct{}

// NewContext is for the package that makes the call: it returns a context that carries the call.
func NewContext(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the call that is running in ctx, if any.
func FromContext(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(contextKey{}).(*Call)
	return c, ok
}
