package migrations

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().(*net.TCPAddr)
}

// greet plays the server's part of the start of a connection.
func greet(conn net.Conn, params map[string]string) (*pgproto3.Backend, bool) {
	b := pgproto3.NewBackend(conn, conn)
	msg, err := b.ReceiveStartupMessage()
	if _, ok := msg.(*pgproto3.StartupMessage); err != nil || !ok {
		return nil, false // a cancel request, or gone
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for name, value := range params {
		b.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return b, b.Flush() == nil
}

// fakeServer reports a version and answers nothing else.
func fakeServer(t *testing.T, version string) *net.TCPAddr {
	return listen(t, func(conn net.Conn) {
		b, ok := greet(conn, map[string]string{"server_version": version})
		for ok {
			msg, err := b.Receive()
			if _, end := msg.(*pgproto3.Terminate); err != nil || end {
				return
			}
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "0A000", Message: "unexpected statement"})
			ok = b.Flush() == nil
		}
	})
}

// pooler passes statements on as a pooler in transaction mode does: to one
// server connection, and to another from the statement that contains before on.
func pooler(t *testing.T, cfg *pgx.ConnConfig, before string) *net.TCPAddr {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		var servers [2]*pgconn.HijackedConn
		for i := range servers {
			direct, err := pgconn.ConnectConfig(context.Background(), &cfg.Config)
			if err != nil {
				t.Error(err)
				return
			}
			if servers[i], err = direct.Hijack(); err != nil {
				t.Error(err)
				return
			}
			defer servers[i].Conn.Close()
		}
		b, ok := greet(conn, servers[0].ParameterStatuses)
		for server := servers[0].Frontend; ok; {
			msg, err := b.Receive()
			if err != nil {
				return
			}
			switch m := msg.(type) {
			case *pgproto3.Terminate:
				return
			case *pgproto3.Query:
				if strings.Contains(m.String, before) {
					server = servers[1].Frontend
				}
				server.Send(m)
				ok = relay(server, b)
			case *pgproto3.Parse:
				if strings.Contains(m.Query, before) {
					server = servers[1].Frontend
				}
				server.Send(m)
			case *pgproto3.Sync:
				server.Send(m)
				ok = relay(server, b)
			default:
				server.Send(m)
			}
		}
	})
}

// relay passes the server's answers on until it is ready for the next statement.
func relay(server *pgproto3.Frontend, client *pgproto3.Backend) bool {
	if server.Flush() != nil {
		return false
	}
	for {
		msg, err := server.Receive()
		if err != nil {
			return false
		}
		client.Send(msg)
		if _, ready := msg.(*pgproto3.ReadyForQuery); ready {
			return client.Flush() == nil
		}
		if client.Flush() != nil { // messages are only good until the next Receive
			return false
		}
	}
}

// sharing passes statements on as a pooler in transaction mode does that has one
// server connection for all its clients.
func sharing(t *testing.T, cfg *pgx.ConnConfig) *net.TCPAddr {
	t.Helper()
	direct, err := pgconn.ConnectConfig(t.Context(), &cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := direct.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Conn.Close() })
	var busy sync.Mutex
	return listen(t, func(conn net.Conn) {
		b, ok := greet(conn, server.ParameterStatuses)
		for mine := false; ok; {
			msg, err := b.Receive()
			if _, end := msg.(*pgproto3.Terminate); err != nil || end {
				return
			}
			if !mine {
				busy.Lock()
				mine = true
			}
			server.Frontend.Send(msg)
			switch msg.(type) {
			case *pgproto3.Query, *pgproto3.Sync:
				ok, mine = relay(server.Frontend, b), false
				busy.Unlock()
			}
		}
	})
}
