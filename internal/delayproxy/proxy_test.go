package delayproxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// way is how a test's client gets to its server: where the server listens, and where the proxy does. No second address
// means Dial.
type way struct{ server, proxy Endpoint }

func ways(t *testing.T) map[string]way {
	dir := t.TempDir()
	unix := func(name string) Endpoint { return Endpoint{"unix", filepath.Join(dir, name)} }
	tcp := Endpoint{"tcp", "127.0.0.1:0"}
	return map[string]way{
		"tcp":            {tcp, tcp},
		"unix":           {unix("a"), unix("b")},
		"tcp to unix":    {unix("c"), tcp},
		"memory to unix": {server: unix("d")},
		"memory to tcp":  {server: tcp},
	}
}

func (w way) halfCloses() bool { return w.proxy != Endpoint{} }

// connect starts a proxy in front of a listener and returns both ends of a connection through it.
func connect(t *testing.T, w way, delay time.Duration) (client, server stream, p *Proxy) {
	t.Helper()
	l, err := net.Listen(w.server.Network, w.server.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err = New(Endpoint{l.Addr().Network(), l.Addr().String()}, &Config{Delay: delay})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if w.halfCloses() {
		client = dialListener(t, p, w.proxy)
	} else {
		c, err := p.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		client = memory{c}
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = far.(stream)
	for _, c := range []stream{client, server} {
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return client, server, p
}

func dialListener(t *testing.T, p *Proxy, at Endpoint) stream {
	t.Helper()
	addr, err := p.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return c.(stream)
}

func TestProxy_BytesArriveUnharmedAndInOrderBothWays(t *testing.T) {
	t.Parallel()
	for name, w := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server, _ := connect(t, w, 0)
			there, back := noise(1, 8<<20), noise(2, 8<<20)
			var all sync.WaitGroup
			defer all.Wait()
			for _, way := range []struct {
				from, to stream
				data     []byte
			}{{client, server, there}, {server, client, back}} {
				all.Go(func() { sendInPieces(t, way.from, way.data) })
				all.Go(func() {
					got := make([]byte, len(way.data))
					if n, err := io.ReadFull(way.to, got); err != nil {
						t.Errorf("read after %d bytes: %v", n, err)
					}
					if !bytes.Equal(got, way.data) {
						t.Error("what came is not what was sent")
					}
				})
			}
		})
	}
}

func noise(seed uint64, n int) []byte {
	data := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(data) // never fails
	return data
}

// sendInPieces writes pieces of 1 byte to 128 KiB.
func sendInPieces(t *testing.T, to stream, data []byte) {
	sizes := rand.New(rand.NewPCG(1, 2))
	for len(data) > 0 {
		n := min(len(data), 1+sizes.IntN(1<<sizes.IntN(18)))
		if _, err := to.Write(data[:n]); err != nil {
			t.Errorf("write: %v", err)
			return
		}
		data = data[n:]
	}
}

func TestProxy_NothingArrivesEarly(t *testing.T) {
	t.Parallel()
	const delay = 30 * time.Millisecond
	for name, w := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server, _ := connect(t, w, delay)
			go func() { _, _ = io.Copy(server, server) }() // echo, until the connection ends
			for range 5 {
				sent := time.Now()
				answer := ask(t, client, "ping")
				if took := time.Since(sent); answer != "ping" || took < 2*delay {
					t.Errorf("%q after %v, want ping after at least %v", answer, took, 2*delay)
				}
			}
		})
	}
}

func ask(t *testing.T, c net.Conn, question string) string {
	t.Helper()
	if _, err := io.WriteString(c, question); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len(question))
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestProxy_EndOfFileTravels(t *testing.T) {
	t.Parallel()
	for name, w := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server, _ := connect(t, w, 0)
			both := [][2]stream{{client, server}, {server, client}} // the second when the first is closed
			if !w.halfCloses() {
				both = both[1:]
			}
			for _, way := range both {
				if _, err := io.WriteString(way[0], "last words"); err != nil {
					t.Fatal(err)
				}
				if err := way[0].CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(way[1]); err != nil || string(got) != "last words" {
					t.Errorf("read %q, %v", got, err)
				}
			}
		})
	}
}

func TestProxy_CloseOfOneSideClosesTheOther(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"client", "server"} {
		for name, w := range ways(t) { // whose addresses are used once
			t.Run(name+", "+side, func(t *testing.T) {
				t.Parallel()
				dies, lives, _ := connect(t, w, 0)
				if side == "server" {
					dies, lives = lives, dies
				}
				if tcp, ok := dies.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // a reset, not an end of file
				}
				if err := dies.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(lives); isTimeout(err) {
					t.Error("the other side did not hear of it")
				}
			})
		}
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func TestProxy_UnreachableTarget(t *testing.T) {
	t.Parallel()
	p, err := New(Endpoint{"unix", filepath.Join(t.TempDir(), "nobody")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := dialListener(t, p, Endpoint{"tcp", "127.0.0.1:0"})
	defer client.Close()
	_ = client.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(client); isTimeout(err) {
		t.Error("the client was not told")
	}
	if _, err := p.Dial(t.Context()); err == nil {
		t.Error("Dial connects to nobody")
	}
}

// What is under way for an hour must not keep Close, nor leave a goroutine behind (TestMain).
func TestProxy_CloseCutsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, w := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, server, p := connect(t, w, time.Hour)
			for _, c := range []stream{client, server} {
				if _, err := io.WriteString(c, "too late"); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, c := range []stream{client, server} {
				if got, err := io.ReadAll(c); len(got) > 0 || isTimeout(err) {
					t.Errorf("read %q, %v", got, err)
				}
			}
			if _, err := p.Dial(t.Context()); err == nil {
				t.Error("a closed proxy dials")
			}
			if _, err := p.Listen(Endpoint{"tcp", "127.0.0.1:0"}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Listen of a closed proxy: %v", err)
			}
		})
	}
}

func TestProxy_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	if _, err := New(Endpoint{"tcp", "127.0.0.1:1"}, &Config{Delay: -time.Second}); err == nil || !strings.Contains(err.Error(), "Config.Delay") {
		t.Errorf("a negative delay: %v", err)
	}
	p, err := New(Endpoint{"udp", "127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Listen(Endpoint{"unix", filepath.Join(t.TempDir(), "no", "such", "folder")}); err == nil {
		t.Error("it listens nowhere")
	}
	if _, err := p.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "streams") {
		t.Errorf("a network of datagrams: %v", err)
	}
}
