package httpidem_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/txidem/httpidem"
)

// dial opens a connection to the server on which the test says every byte.
func dial(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func read(t *testing.T, conn net.Conn) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

const head = "POST /orders/A-1/refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"

// TestHandler_H04_SlowBody: whoever sends slowly is told so, and holds no connection of the database meanwhile.
func TestHandler_H04_SlowBody(t *testing.T) {
	t.Parallel()
	b := setup(t, &httpidem.Config{BodyTimeout: 300 * time.Millisecond}, created, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	slow := dial(t, b.url)
	if _, err := fmt.Fprintf(slow, "%sContent-Length: 100\r\n\r\n{\"order", head); err != nil {
		t.Fatal(err)
	}
	b.want("another client", b.post("B-1", "k2", `{}`), 201, "", false)
	b.want("the slow one", read(t, slow), 408, "slow_body", false)
	if _, err := slow.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is left open: %v", err)
	}
	b.want("again", b.post("A-1", "k", `{}`), 201, "", false)
	b.wantEffects(2)
}

// TestHandler_H04_DeadlineOfTheBodyIsNotTheHandlers: a handler that takes longer than the body may is not cancelled by it.
func TestHandler_H04_DeadlineOfTheBodyIsNotTheHandlers(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	b := setup(t, &httpidem.Config{BodyTimeout: timeout}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		if _, err := tx.Exec(r.Context(), `select pg_sleep(0.2)`); err != nil {
			return err
		}
		return created(w, r, tx)
	})
	b.want("first", b.post("A-1", "k", `{}`), 201, "", false)
}

func TestHandler_H04_LargeBody(t *testing.T) {
	t.Parallel()
	b := setup(t, &httpidem.Config{MaxBody: 20}, created)
	b.want("too large", b.post("A-1", "k", `{"order":"A-1","x":0}`), 413, "large_body", false)
	chunked := dial(t, b.url)
	if _, err := fmt.Fprintf(chunked, "%sTransfer-Encoding: chunked\r\n\r\n15\r\n{\"order\":\"A-1\",\"x\":0}\r\n", head); err != nil {
		t.Fatal(err)
	}
	b.want("in chunks", read(t, chunked), 413, "large_body", false)
	b.want("just right", b.post("A-1", "k", `{"order":"A-1","":0}`), 201, "", false)
	b.wantEffects(1)
}

func TestHandler_H04_BrokenBody(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, created)
	conn := dial(t, b.url)
	if _, err := fmt.Fprintf(conn, "%sTransfer-Encoding: chunked\r\n\r\nzz\r\n", head); err != nil {
		t.Fatal(err)
	}
	b.want("no chunk", read(t, conn), 400, "bad_body", false)
	conn = dial(t, b.url)
	if _, err := fmt.Fprintf(conn, "%sContent-Length: 100\r\n\r\n{\"order", head); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b.want("half", read(t, conn), 400, "bad_body", false)
	b.wantEffects(0)
	if n := b.records(); n != 0 {
		t.Errorf("%d records", n)
	}
}

func TestHandler_HandlerReadsTheBody(t *testing.T) {
	t.Parallel()
	h := protect(t, memory(t, nil), nil, func(w http.ResponseWriter, r *http.Request, _ pgx.Tx) error {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d %q", r.ContentLength, body)
		return err
	})
	for _, c := range []struct{ body, want string }{{"", `0 ""`}, {"\x00x", `2 "\x00x"`}} {
		if a := ask(h, "POST", "/x", c.body, "Idempotency-Key", c.want); a.body != c.want {
			t.Errorf("%q: %q", c.body, a.body)
		}
	}
}
