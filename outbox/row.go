package outbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/txonce/txonce/internal/randid"
	"github.com/txonce/txonce/toolcall"
)

// row is a checked message that is to be written.
type row struct {
	Message
	id      toolcall.ID
	call    *toolcall.Call // nil outside one
	headers []byte         // as JSON
}

func (o *Outbox) rowOf(call *toolcall.Call, m Message) (*row, error) {
	d := o.destinations[m.Destination]
	if d == nil {
		return nil, fmt.Errorf("%w: %.80q", ErrUnknownDestination, m.Destination)
	}
	if err := m.check(o.cfg.MaxBody); err != nil {
		return nil, err
	}
	if checker, ok := d.Publisher.(Checker); ok {
		if err := checker.Check(m); err != nil {
			return nil, fmt.Errorf("%w for destination %s: %w", ErrMessage, d.Name, err)
		}
	}
	r := &row{Message: m, id: randid.V7(), call: call}
	r.Body = append([]byte{}, m.Body...) // the caller may use its memory for something else
	if err := r.name(); err != nil {
		return nil, err
	}
	if len(m.Headers) > 0 {
		r.headers, _ = json.Marshal(m.Headers) // cannot fail: they are strings
	}
	return r, nil
}

// name gives the message its effect and its downstream key.
func (r *row) name() error {
	if r.call != nil {
		if err := r.nameEffect(); err != nil {
			return err
		}
	}
	switch {
	case r.Key != "":
	case r.call == nil || r.call.Epoch == "" && r.call.Key[:min(2, len(r.call.Key))] == "h:":
		// The key of such a call is a hash of its arguments, which is an intent's for some minutes only: the next one is not to
		// be taken for a repeat by a receiver that remembers for longer. The message is written once, and so its id serves.
		r.Key = (&toolcall.Call{ID: r.id}).DownstreamKey(r.Effect)
	default:
		r.Key = r.call.DownstreamKey(r.Effect)
	}
	return nil
}

func (r *row) nameEffect() error {
	taken := r.call.Value(effectsKey{}, func() any { return &effects{} }).(*effects)
	if r.Effect == "" {
		r.Effect = taken.number(r.Destination)
		return nil
	}
	if !taken.take(r.Effect) {
		return fmt.Errorf("%w: %.80q", ErrSameEffect, r.Effect)
	}
	return nil
}

// effects are those of one run of a handler, by name.
type effects struct {
	mu    sync.Mutex
	names map[string]bool
	last  map[string]int // by destination
}

type effectsKey struct{}

func (e *effects) take(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.takeLocked(name)
}

func (e *effects) takeLocked(name string) bool {
	if e.names[name] {
		return false
	}
	if e.names == nil {
		e.names, e.last = make(map[string]bool), make(map[string]int)
	}
	e.names[name] = true
	return true
}

func (e *effects) number(destination string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := e.last[destination] + 1; ; n++ {
		if name := destination + "/" + strconv.Itoa(n); e.takeLocked(name) {
			e.last[destination] = n
			return name
		}
	}
}

// queued are the messages that one run of a handler leaves for its end.
type queued struct {
	mu   sync.Mutex
	rows []*row
}

type queuedKey struct{ *Outbox }

// add takes a message in, unless the handler has returned: then it would be lost, or sent although its publisher heard an error.
// first is called for the first one.
func (q *queued) add(call *toolcall.Call, r *row, first func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if call.Over() {
		return toolcall.ErrCallOver
	}
	if q.rows == nil {
		if err := first(); err != nil {
			return err
		}
	}
	q.rows = append(q.rows, r)
	return nil
}

func (q *queued) all() []*row {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rows
}

// queueRows queues the ordering locks, sorted so that two transactions cannot wait for each other, and the messages.
func (o *Outbox) queueRows(b *pgx.Batch, rows []*row) {
	var lanes []lane
	for _, r := range rows {
		if r.OrderingKey != "" {
			lanes = append(lanes, laneOf(o.cfg.Schema, r.Destination, r.OrderingKey))
		}
	}
	if len(lanes) > 0 {
		slices.SortFunc(lanes, func(x, y lane) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) })
		b.Queue(sqlLanes, halves(lanes, 0), halves(lanes, 1))
	}
	for _, r := range rows {
		b.Queue(o.sql.publish, r.args()...)
	}
}

func (r *row) args() []any {
	var scope, tool string
	var call pgtype.UUID
	if r.call != nil {
		scope, tool, call = r.call.Scope, r.call.Tool, uuidOf(r.call.ID)
	}
	return []any{
		uuidOf(r.id), scope, call, tool, r.Destination, r.Effect, r.Key, textOrNull(r.OrderingKey), r.Address, r.Type, textOrNull(string(r.headers)),
		r.Body, r.Delay.Seconds(), secondsOrNull(r.Within),
	}
}

// lane is the lock of a destination's ordering key. Pairs of integers lie in another space than the locks of calls.
type lane [2]int32

func laneOf(parts ...string) lane {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	sum := h.Sum(nil)
	return lane{int32(binary.BigEndian.Uint32(sum)), int32(binary.BigEndian.Uint32(sum[4:]))}
}

func halves(lanes []lane, half int) []int32 {
	out := make([]int32, len(lanes))
	for i, l := range lanes {
		out[i] = l[half]
	}
	return out
}
