package delayproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Endpoint is an address as package net takes it, such as tcp and 127.0.0.1:5432, or unix and a path.
type Endpoint struct{ Network, Address string }

// Config is what a [Proxy] can be told.
type Config struct {
	// Delay is how long a byte is under way, in one direction. Defaults to 500 µs, a round trip of one millisecond.
	Delay time.Duration
}

// Proxy forwards connections to its target, with a delay. It is safe for concurrent use.
type Proxy struct {
	target Endpoint
	delay  time.Duration

	ctx context.Context // ends with Close, and breaks all connections
	cut context.CancelFunc

	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	running   sync.WaitGroup // Add under mu, while not closed
}

// New makes a proxy in front of target, without connecting to it. It returns an error for a negative delay.
func New(target Endpoint, cfg *Config) (*Proxy, error) {
	p := &Proxy{target: target, delay: 500 * time.Microsecond}
	if cfg != nil && cfg.Delay != 0 {
		p.delay = cfg.Delay
	}
	if p.delay < 0 {
		return nil, fmt.Errorf("delayproxy: Config.Delay is %v; it must not be negative", p.delay)
	}
	p.ctx, p.cut = context.WithCancel(context.Background())
	return p, nil
}

// Listen accepts clients at an address, such as tcp and 127.0.0.1:0, until [Proxy.Close]. It returns where they connect.
// If the target cannot be reached when one does, that one's connection is closed.
func (p *Proxy) Listen(at Endpoint) (net.Addr, error) {
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		return nil, fmt.Errorf("delayproxy: %w; choose another address", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = l.Close()
		return nil, errClosed
	}
	p.listeners = append(p.listeners, l)
	p.running.Go(func() { p.accept(l) })
	return l.Addr(), nil
}

// Dial connects a client in the same process. Its end of the connection is in memory, so that of the proxy's work, which
// is done at the cost of who shares the machine, the smaller half is left. It has no half-closed state: when the
// server has said its last word, nothing more is taken from the client.
func (p *Proxy) Dial(ctx context.Context) (net.Conn, error) {
	server, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = server.Close()
		return nil, errClosed
	}
	p.running.Go(func() { p.join(memory{near}, server) })
	return client, nil
}

var errClosed = fmt.Errorf("delayproxy: %w", net.ErrClosed)

// Close stops listening, breaks all connections at once (bytes under way are lost) and waits until nothing of the proxy
// runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.Close())
	}
	p.listeners = nil
	p.mu.Unlock()
	p.cut()
	p.running.Wait()
	return errors.Join(errs...)
}

func (p *Proxy) accept(l net.Listener) {
	defer l.Close() // whatever ended this: who connects now is to hear of it
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		clients.Go(func() {
			server, err := p.connect(p.ctx)
			if err != nil {
				_ = client.Close()
				return
			}
			p.join(client.(stream), server) // that it is one, net.Listen has seen to
		})
	}
}

// stream is a connection that can say "no more from here" and still be read: TCP, Unix sockets.
type stream interface {
	net.Conn
	CloseWrite() error
}

// memory is the near end of a client in this process.
type memory struct{ net.Conn }

func (m memory) CloseWrite() error { return m.Close() }

func (p *Proxy) connect(ctx context.Context) (stream, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, p.target.Network, p.target.Address)
	if err != nil {
		return nil, fmt.Errorf("delayproxy: %w", err)
	}
	s, ok := c.(stream)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("delayproxy: %s is not a network of streams; use tcp or unix", p.target.Network)
	}
	return s, nil
}

// join forwards between the two until both directions have ended, or one has broken.
func (p *Proxy) join(near, far stream) {
	defer near.Close()
	defer far.Close()
	there, err := newPipe(near, far, p.delay)
	if err != nil {
		return
	}
	defer there.cut()
	back, err := newPipe(far, near, p.delay)
	if err != nil {
		return
	}
	defer back.cut()

	ctx, fail := context.WithCancel(p.ctx)
	defer fail()
	var running sync.WaitGroup
	running.Go(func() { there.run(fail) })
	running.Go(func() { back.run(fail) })
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		there.cut()
		back.cut()
	})
	running.Wait()
	if !stop() {
		<-cut
	}
}
