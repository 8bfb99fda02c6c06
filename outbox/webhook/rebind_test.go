package webhook_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txonce/txonce/outbox"
	"github.com/txonce/txonce/outbox/webhook"
)

// zone answers each question for an IPv4 address with what it has then.
type zone struct {
	mu  sync.Mutex
	ips []string
}

func (z *zone) set(ips ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ips = ips
}

func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go z.serve(ours)
		return theirs, nil
	}}
}

// serve speaks DNS as over TCP (RFC 1035, 4.2.2): a length, and a message.
func (z *zone) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := z.answer(query)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (z *zone) answer(query []byte) []byte {
	end := 12 // of the question: labels, a zero, type and class
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	end += 5
	z.mu.Lock()
	defer z.mu.Unlock()
	var records []byte
	n := byte(0)
	for _, ip := range z.ips {
		if kind == 1 {
			a := netip.MustParseAddr(ip).As4()
			records = append(append(records, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), a[:]...)
			n++
		}
	}
	head := []byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, n, 0, 0, 0, 0}
	return append(append(head, query[12:end]...), records...)
}

// TestDeliver_O07_NameThatLeadsElsewhereTheNextTime: 127.0.0.2 stands for the public network, and 127.0.0.1 for this machine.
func TestDeliver_O07_NameThatLeadsElsewhereTheNextTime(t *testing.T) {
	t.Parallel()
	public, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(public.Addr().String())
	inside, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		public.Close()
		t.Skipf("the port is taken: %v", err)
	}
	var asked atomic.Int64
	serve(t, public, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	serve(t, inside, func(http.ResponseWriter, *http.Request) { t.Error("the inside was connected to") })
	z := &zone{}
	p := newPublisher(t, webhook.Config{AllowHTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/31")}})
	p.SetResolver(z.resolver())
	d := outbox.Delivery{Address: "http://hooks.example:" + port + "/"}
	for _, c := range []struct {
		ips  []string
		want outbox.Class
	}{
		{[]string{"127.0.0.2"}, outbox.Delivered},
		{[]string{"127.0.0.1"}, outbox.Rejected},
		{[]string{"127.0.0.1", "127.0.0.2"}, outbox.Delivered}, // the one that may be connected to
		{[]string{"127.0.0.1", "127.0.0.3"}, outbox.Retry},     // it is down, and may come again
		{nil, outbox.Retry},
	} {
		z.set(c.ips...)
		if out := post(t, p, d); out.Class != c.want {
			t.Errorf("%v: %+v, and not class %d", c.ips, out, c.want)
		}
		p.CloseIdleConnections()
	}
	if asked.Load() != 2 {
		t.Errorf("the endpoint was asked %d times", asked.Load())
	}
}

func serve(t *testing.T, l net.Listener, h http.HandlerFunc) {
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}
