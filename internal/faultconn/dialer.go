package faultconn

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// ErrDown is what a dialer that is down answers.
var ErrDown = errors.New("faultconn: the network is down")

// Dialer makes connections that can be broken. The zero value is ready, and stands for a network without faults. It may be
// used by any number of goroutines.
type Dialer struct {
	down, loseCancels atomic.Bool
	conns             sync.Map // the open ones: *Conn to nothing
}

// DialFunc connects. It is a pgconn.DialFunc.
func (d *Dialer) DialFunc(ctx context.Context, network, address string) (net.Conn, error) {
	if d.down.Load() {
		return nil, ErrDown
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn, dialer: d, state: whole}
	c.silence, c.mouth = net.Pipe()
	d.conns.Store(c, nil)
	return c, nil
}

// Down lets new connections fail with [ErrDown], or succeed again. It leaves those that are open.
func (d *Dialer) Down(down bool) { d.down.Store(down) }

// LoseCancels lets cancel requests disappear on their way, as if the client had been killed before it could send one:
// the server goes on with what it is doing.
func (d *Dialer) LoseCancels(lose bool) { d.loseCancels.Store(lose) }

// CutStalled cuts the connections that are silent: both sides hear of it, and a client that waits for one ends at once.
func (d *Dialer) CutStalled() {
	d.conns.Range(func(key, _ any) bool {
		if c, ok := key.(*Conn); ok && c.is(Stall) {
			c.Cut()
		}
		return true
	})
}

func (d *Dialer) forget(c *Conn) { d.conns.Delete(c) }
