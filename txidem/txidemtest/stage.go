package txidemtest

import (
	"slices"
	"strings"
	"sync"
)

// order says which point is next, and holds what its fault needs.
type order struct {
	point
	cancel  func()        // of the call's context
	die     func()        // does not return
	reached chan struct{} // closed when the point is reached
	goOn    chan struct{} // closed to let a held call go on

	once sync.Once
}

func newOrder(p point) *order {
	return &order{point: p, reached: make(chan struct{}), goOn: make(chan struct{})}
}

// hit reports whether the point was reached.
func (o *order) hit() bool {
	select {
	case <-o.reached:
		return true
	default:
		return false
	}
}

// strike does what is to be done, and reports whether the connection is to be cut.
func (o *order) strike() bool {
	o.once.Do(func() { close(o.reached) })
	switch o.Fault {
	case killed:
		o.die()
	case cancelled:
		o.cancel()
	case held:
		<-o.goOn
	}
	return o.Fault == cut
}

// stage sees the turns of all connections of a pool, and knows which one is to be broken.
type stage struct {
	mu         sync.Mutex
	order      *order
	seen       []seenTurn
	outside    []string // what ran beside the transaction of a claim
	statements int      // that handlers began
	ended      int      // the number behind that of the last one of which the end was seen
	claims     chan struct{}
}

// begin is told of a call.
func (s *stage) begin(o *order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order, s.seen, s.outside, s.statements, s.ended, s.claims = o, nil, nil, 0, 0, make(chan struct{}, 1)
}

// clear lets the calls that follow be whole.
func (s *stage) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = nil
}

// shape returns what was seen since begin.
func (s *stage) shape() shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shape{turns: named(s.seen), statements: s.statements, ended: s.ended}
}

// claimed returns a channel that gets a value for a claim that is written.
func (s *stage) claimed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims
}

// hints returns the SQL that ran beside the transaction of a claim, in words.
func (s *stage) hints() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.outside) == 0 {
		return ""
	}
	return "; seen outside a call's transaction: " + strings.Join(s.outside, "; ")
}

// turn is told of each turn before it is written, and returns what to do there.
func (s *stage) turn(w *wire, t seenTurn) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims, records := t.Claims(), t.Records()
	t.claimed = w.claimed || claims
	w.claimed = t.claimed && !t.Commits && !t.Is("rollback") || claims && !records
	w.recorded = w.claimed && (w.recorded || records)
	if claims {
		select {
		case s.claims <- struct{}{}:
		default:
		}
	}
	if !t.claimed && !records && !isOwn(t.Turn) {
		s.note(strings.Join(t.SQL, "; "))
	}
	s.seen = append(s.seen, t)
	if o := s.order; o != nil && o.Fault != panicking && o.Place != returned && o.Turn == len(s.seen)-1 {
		return o
	}
	return nil
}

// The hints in a message are few and short.
const (
	maxHints = 3
	maxHint  = 120
)

func (s *stage) note(sql string) {
	sql = strings.Join(strings.Fields(sql), " ")
	sql = sql[:min(len(sql), maxHint)]
	if len(s.outside) < maxHints && !slices.Contains(s.outside, sql) {
		s.outside = append(s.outside, sql)
	}
}

// inHandler reports whether a connection is in the hands of a handler.
func (s *stage) inHandler(w *wire) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.claimed && !w.recorded
}

// statement is told when a handler begins a statement, and returns its number.
func (s *stage) statement() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statements++
	return s.statements - 1
}

// panics returns the order, if the handler is to panic at this place of a statement.
func (s *stage) panics(number int, at place) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.order; o != nil && o.Fault == panicking && o.Turn == number && o.Place == at {
		return o
	}
	return nil
}

// statementEnded is told when a statement has ended, at a place where the handler may panic.
func (s *stage) statementEnded(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = max(s.ended, number+1)
}
