package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/stdlib"
)

// thrifty is the driver "pgx" for pgtestdb, which connects to the server anew to make and to remove each database, and has the
// server clone a template page by page through its log. That is most of what a short test costs. This driver keeps connections for
// the next database, and has files copied.
const thrifty = "pgx, thrifty"

var kept keptConns

var register = sync.OnceFunc(func() { sql.Register(thrifty, &kept) })

// keptConns are connections that nobody uses, by the URL.
type keptConns struct {
	mu   sync.Mutex
	idle map[string][]*stdlib.Conn
}

// Open implements driver.Driver.
func (k *keptConns) Open(url string) (driver.Conn, error) {
	k.mu.Lock()
	var conn *stdlib.Conn
	if n := len(k.idle[url]); n > 0 {
		conn = k.idle[url][n-1]
		k.idle[url] = k.idle[url][:n-1]
	}
	k.mu.Unlock()
	if conn == nil {
		made, err := stdlib.GetDefaultDriver().Open(url)
		if err != nil {
			return nil, err
		}
		conn = made.(*stdlib.Conn)
	}
	return &keptConn{conn, k, url}, nil
}

// close closes those that nobody uses.
func (k *keptConns) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, conns := range k.idle {
		for _, conn := range conns {
			_ = conn.Close() // the server may be gone
		}
	}
	k.idle = nil
}

type keptConn struct {
	*stdlib.Conn
	kept *keptConns
	url  string
}

// Close implements driver.Conn.
func (c *keptConn) Close() error {
	if c.Conn.Conn().IsClosed() {
		return c.Conn.Close()
	}
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	if c.kept.idle == nil {
		c.kept.idle = make(map[string][]*stdlib.Conn)
	}
	c.kept.idle[c.url] = append(c.kept.idle[c.url], c.Conn)
	return nil
}

// ExecContext implements driver.ExecerContext.
func (c *keptConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, "CREATE DATABASE ") && strings.Contains(query, " WITH TEMPLATE ") && c.major() >= 15 {
		query += " STRATEGY FILE_COPY"
	}
	return c.Conn.ExecContext(ctx, query, args)
}

// major is the server's major version, 0 of one that is not released.
func (c *keptConn) major() int {
	version, _, _ := strings.Cut(c.Conn.Conn().PgConn().ParameterStatus("server_version"), ".")
	n, err := strconv.Atoi(version)
	if err != nil {
		return 0
	}
	return n
}
