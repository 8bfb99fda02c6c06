package toolcall

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"
	"time"

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

	// Keep is how long the record of this call is kept, counted from its end; zero where the call writes none that can be held.
	Keep time.Duration

	// Outer is the call whose handler makes this one in its own transaction, if there is one.
	Outer *Call

	mu     sync.Mutex
	over   bool
	held   bool
	queued []func(*pgx.Batch)
	values map[any]any
}

// ErrCallOver is returned by [Call.AtFinish] and [Call.Hold] when the handler of the call has returned: what is queued or held
// then would be lost.
var ErrCallOver = errors.New("toolcall: the call is over; queue statements, and hold its record, before the handler returns")

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

// Hold keeps the record of the call from expiring, until whoever holds it gives it an expiry: package jobs does, so that a retry
// finds the job's id for as long as the job runs and Keep after it. Only the record of a call that succeeds is held. It must
// be called by the handler, in each of its runs, and returns ErrCallOver when that has returned. Where Keep is zero it does
// nothing.
func (c *Call) Hold() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrCallOver
	}
	c.held = c.Keep > 0
	return nil
}

// Held reports whether the record of the call is held. It does not change any more once the handler has returned.
func (c *Call) Held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// Finish is for the package that made the call: it ends the call for [Call.AtFinish] and [Call.Hold], and queues on b what was put
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

// Value is for packages that a handler calls and that keep something for the length of this run of it: it returns what is kept
// under the key, which is what first returns where nothing is yet. As in a context, a key should have a type of the package's own.
func (c *Call) Value(key any, first func() any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.values[key]
	if !ok {
		if c.values == nil {
			c.values = make(map[any]any)
		}
		value = first()
		c.values[key] = value
	}
	return value
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
