package delayproxy

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// fake is a stream whose reads and writes the test makes.
type fake struct {
	net.Conn
	read  func([]byte) (int, error)
	write func([]byte) (int, error)
}

func (f *fake) Read(p []byte) (int, error)  { return f.read(p) }
func (f *fake) Write(p []byte) (int, error) { return f.write(p) }
func (f *fake) Close() error                { return nil }
func (f *fake) CloseWrite() error           { return nil }

// Forty pieces that come in together are under way together. One after the other they would take forty delays.
func TestPipe_TheDelayIsNoBottleneck(t *testing.T) {
	t.Parallel()
	const pieces, delay = 40, time.Second
	sent := 0
	src := &fake{read: func(p []byte) (int, error) {
		if sent == pieces {
			return 0, io.EOF
		}
		sent++
		return copy(p, strconv.Itoa(sent)+" "), nil
	}}
	var got, want bytes.Buffer
	p, err := newPipe(src, &fake{write: got.Write}, delay)
	if err != nil {
		t.Fatal(err)
	}
	defer p.cut()
	began := time.Now()
	p.run(func() { t.Error("the pipe broke") })
	if took := time.Since(began); took > pieces*delay/2 {
		t.Errorf("%d pieces took %v with a delay of %v", pieces, took, delay)
	}
	for i := range pieces {
		want.WriteString(strconv.Itoa(i+1) + " ")
	}
	if got.String() != want.String() {
		t.Errorf("got %q, want %q", got.String(), want.String())
	}
}

// A receiver who does not read stops the sender before our memory is full.
func TestPipe_HoldsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	var read int
	full := make(chan struct{})
	src := &fake{read: func(p []byte) (int, error) {
		if read += len(p); read >= 2*maxHeld {
			close(full)
			return 0, io.EOF
		}
		return len(p), nil
	}}
	blocked, free := make(chan struct{}), make(chan struct{})
	dst := &fake{write: func(p []byte) (int, error) {
		select {
		case blocked <- struct{}{}:
		default:
		}
		<-free
		return len(p), nil
	}}
	p, err := newPipe(src, dst, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	defer p.cut()
	var running sync.WaitGroup
	running.Go(func() { p.run(func() { t.Error("the pipe broke") }) })
	<-blocked
	waitUntil(t, "the queue is full", func() bool { return p.held() >= maxHeld })
	if held := p.held(); held > maxHeld+readSize {
		t.Errorf("%d bytes are held, %d are allowed", held, maxHeld+readSize)
	}
	select {
	case <-full:
		t.Error("the sender was not stopped")
	default:
	}
	close(free)
	running.Wait()
	<-full // and it goes on when the receiver does
}

func (p *pipe) held() int {
	p.way.mu.Lock()
	defer p.way.mu.Unlock()
	return p.way.held
}

// waitUntil polls: nothing signals that a goroutine has come to rest.
func waitUntil(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}
