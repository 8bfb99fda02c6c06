package faultconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// server is the other end of one connection.
type server struct {
	net.Conn
	t *testing.T
}

// connect returns both ends of a connection.
func connect(t *testing.T, d *Dialer) (*Conn, *server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := d.DialFunc(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), conn.Close() })
	return Of(client), &server{conn, t}
}

// gets reads as many bytes as want has and compares them.
func (s *server) gets(want []byte) {
	s.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
		s.t.Errorf("the server got %q, %v; want %q", got[:n], err, want)
	}
}

// getsLast is gets, and then the end of the stream.
func (s *server) getsLast(want []byte) {
	s.t.Helper()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) {
		s.t.Errorf("the server got %q, %v; want %q and the end", got, err, want)
	}
}

func (s *server) says(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		s.t.Error(err)
	}
}

// message is one of the protocol's.
func message(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	return append(b, body...)
}

var (
	prepare = bytes.Join([][]byte{message('P', "stmt"), message('D', "stmt"), message('S', "")}, nil)
	execute = bytes.Join([][]byte{message('B', "insert"), message('E', "1"), message('B', "commit"), message('E', "2"), message('S', "")}, nil)
)

func TestConn_WholeOnePassesEverything(t *testing.T) {
	t.Parallel()
	c, s := connect(t, &Dialer{})
	for range 2 {
		if n, err := c.Write(execute); n != len(execute) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		s.gets(execute)
		s.says("done")
		got := make([]byte, 4)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "done" {
			t.Errorf("the client read %q, %v", got, err)
		}
	}
}

func TestFault_CutLetsPassWhatItSays(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		pass func([]byte) int
		want int
	}{
		"nothing":            {Nothing, 0},
		"everything":         {nil, len(execute)},
		"all but the Sync":   {AllBut(1), len(execute) - 5},
		"all but COMMIT":     {AllBut(2), len(execute) - 5 - 6},
		"all but too many":   {AllBut(99), 0},
		"all but none":       {AllBut(0), len(execute)},
		"seven bytes":        {func([]byte) int { return 7 }, 7},
		"more than there is": {func([]byte) int { return 1 << 20 }, len(execute)},
	} {
		for _, told := range []bool{false, true} {
			client, s := connect(t, &Dialer{})
			client.Arm(Fault{Write: Executes, Pass: c.pass, Told: told})
			if n, err := client.Write(prepare); n != len(prepare) || err != nil {
				t.Errorf("%s: another write met the fault: %d, %v", label, n, err)
			}
			wantN := len(execute)
			if told {
				wantN = c.want
			}
			if n, err := client.Write(execute); n != wantN || (err != nil) != told {
				t.Errorf("%s, told %v: Write gave %d, %v", label, told, n, err)
			}
			s.getsLast(append(bytes.Clone(prepare), execute[:c.want]...))
			if n, err := client.Read(make([]byte, 10)); n != 0 || err != io.EOF {
				t.Errorf("%s: the read behind it gave %d, %v", label, n, err)
			}
			if n, err := client.Write(execute); n != 0 || err == nil {
				t.Errorf("%s: the write behind it gave %d, %v", label, n, err)
			}
		}
	}
}

func TestFault_CutAtAnswerWaitsForTheServer(t *testing.T) {
	t.Parallel()
	c, s := connect(t, &Dialer{})
	c.Arm(Fault{Then: CutAtAnswer})
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 10))
		read <- err
	}()
	if _, err := c.Write(execute); err != nil {
		t.Fatal(err)
	}
	s.gets(execute)
	select {
	case err := <-read:
		t.Fatalf("cut before the server answered: %v", err)
	default:
	}
	s.says("done")
	if err := <-read; err != io.EOF {
		t.Errorf("the client read %v, want the end and no answer", err)
	}
}

func TestFault_StallIsSilentUpToADeadline(t *testing.T) {
	t.Parallel()
	c, s := connect(t, &Dialer{})
	c.Arm(Fault{Pass: Nothing, Then: Stall})
	for range 2 {
		if n, err := c.Write(execute); n != len(execute) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 10))
		read <- err
	}()
	s.says("too late")
	_ = s.Close() // the client does not hear of it
	if err := c.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := c.Read(make([]byte, 10))
		read <- err
	}()
	_ = c.Close()
	if err := <-read; err == nil {
		t.Error("a closed connection was read")
	}
}

func TestConn_StallAndCutAtOnce(t *testing.T) {
	t.Parallel()
	d := &Dialer{}
	for label, breaks := range map[string]func(*Conn){
		"cut":                   (*Conn).Cut,
		"stalled and then cut":  func(c *Conn) { c.Stall(); d.CutStalled() },
		"stalled and cut twice": func(c *Conn) { c.Stall(); c.Cut(); c.Cut() },
	} {
		c, s := connect(t, d)
		read := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 10))
			read <- err
		}()
		breaks(c)
		if err := <-read; err != io.EOF {
			t.Errorf("%s: the client read %v, want the end", label, err)
		}
		s.getsLast(nil)
	}
}

func TestDialer_CutStalledLeavesTheOthers(t *testing.T) {
	t.Parallel()
	d := &Dialer{}
	c, s := connect(t, d)
	d.CutStalled()
	if _, err := c.Write(execute); err != nil {
		t.Error(err)
	}
	s.gets(execute)
}

func TestDialer_DownRefusesNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	d := &Dialer{}
	c, s := connect(t, d)
	d.Down(true)
	if _, err := d.DialFunc(t.Context(), "tcp", s.LocalAddr().String()); !errors.Is(err, ErrDown) {
		t.Errorf("down: %v", err)
	}
	if _, err := c.Write(execute); err != nil {
		t.Error(err)
	}
	s.gets(execute)
	d.Down(false)
	connect(t, d)
	if _, err := d.DialFunc(context.Background(), "no such network", ""); err == nil {
		t.Error("a bad network was dialled")
	}
}

func TestDialer_LoseCancelsSwallowsThemAndNothingElse(t *testing.T) {
	t.Parallel()
	cancel := binary.BigEndian.AppendUint32(nil, 16)
	cancel = binary.BigEndian.AppendUint32(cancel, 80877102)
	cancel = append(cancel, "pid key "...)
	d := &Dialer{}
	for _, lose := range []bool{false, true} {
		d.LoseCancels(lose)
		for _, b := range [][]byte{cancel, execute} {
			c, s := connect(t, d)
			if n, err := c.Write(b); n != len(b) || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
			if lose && isCancel(b) {
				s.getsLast(nil) // and no waiting for an answer
				continue
			}
			s.gets(b)
			_ = c.Close()
		}
	}
}

func TestOf_KnowsItsOwn(t *testing.T) {
	t.Parallel()
	d := &Dialer{}
	c, s := connect(t, d)
	if Of(c) != c || Of(s.Conn) != nil || Of(nil) != nil {
		t.Error("Of took a connection for another")
	}
	_ = c.Close()
	n := 0
	d.conns.Range(func(any, any) bool { n++; return true })
	if n != 0 {
		t.Errorf("the dialer keeps %d closed connections", n)
	}
}

func TestExecutes_ReadsWholeMessagesOnly(t *testing.T) {
	t.Parallel()
	for label, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"nothing":         {nil, false},
		"preparing":       {prepare, false},
		"executing":       {execute, true},
		"a simple query":  {message('Q', "select 1\x00"), true},
		"a bad length":    {[]byte{'E', 0, 0, 0, 3}, false},
		"a huge length":   {[]byte{'E', 255, 255, 255, 255}, false},
		"the start":       {[]byte{0, 0, 0, 8, 0, 3, 0, 0}, false},
		"half a message":  {message('E', "portal")[:7], false},
		"behind a prefix": {append(message('S', ""), message('E', "")...), true},
	} {
		if got := Executes(c.b); got != c.want {
			t.Errorf("%s: %v, want %v", label, got, c.want)
		}
	}
}
