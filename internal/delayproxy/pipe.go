package delayproxy

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

const (
	readSize = 64 << 10
	// maxHeld bounds the bytes under way, so that a receiver who does not read fills the sender's buffers in the end and not
	// our memory.
	maxHeld = 16 << 20
)

// pipe is one direction of a connection.
type pipe struct {
	src, dst stream
	delay    time.Duration
	alarm    *alarm
	way      queue
}

func newPipe(src, dst stream, delay time.Duration) (*pipe, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	p := &pipe{src: src, dst: dst, delay: delay, alarm: alarm}
	p.way.changed.L = &p.way.mu
	return p, nil
}

// run forwards until src has ended, and then ends dst. It calls fail when the connection broke.
func (p *pipe) run(fail func()) {
	var receiving sync.WaitGroup
	receiving.Go(p.receive)
	if err := p.deliver(); err != nil {
		fail()
	}
	receiving.Wait()
}

// receive takes what src sends and notes when it is due.
func (p *pipe) receive() {
	room := make([]byte, readSize)
	for {
		n, err := p.src.Read(room)
		due := time.Now().Add(p.delay)
		if n > 0 && !p.way.push(chunk{due: due, data: bytes.Clone(room[:n])}) {
			return
		}
		if err != nil {
			p.way.push(chunk{due: due, end: err})
			return
		}
	}
}

// deliver writes to dst what is due.
func (p *pipe) deliver() error {
	for {
		c, ok := p.way.pop()
		if !ok {
			return errCut
		}
		if wait := time.Until(c.due); wait > 0 {
			if err := p.alarm.sleep(wait); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(c.end, io.EOF):
			return p.dst.CloseWrite()
		case c.end != nil:
			return c.end
		}
		if _, err := p.dst.Write(c.data); err != nil {
			return err
		}
	}
}

// cut breaks the direction at once, and everything that waits in it.
func (p *pipe) cut() {
	p.way.close()
	p.alarm.stop()
	_ = p.src.Close()
	_ = p.dst.Close()
}

var errCut = errors.New("delayproxy: the connection was cut")

// chunk is what came in at one time, or the end of it all.
type chunk struct {
	due  time.Time
	data []byte
	end  error // io.EOF, or why nothing more can be read
}

// queue holds what is under way, oldest first.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  []chunk
	held    int // bytes
	closed  bool
}

// push waits for room. It returns false if the queue is closed.
func (q *queue) push(c chunk) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.held >= maxHeld && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return false
	}
	q.chunks = append(q.chunks, c)
	q.held += len(c.data)
	q.changed.Signal() // one side waits at most: the queue is not full and empty at once
	return true
}

// pop waits for a chunk. It returns false if the queue is closed.
func (q *queue) pop() (chunk, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return chunk{}, false
	}
	c := q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	q.held -= len(c.data)
	q.changed.Signal()
	return c, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}
