package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/stdlib"
)

// thrifty is the driver "pgx" for pgtestdb, which connects to the server anew to make and to remove each database, and has the
// server clone a template page by page through its log. That is most of what a short test costs. This driver keeps connections for
// the next database, and has files copied where nothing has to reach a disk (they cost two checkpoints).
const thrifty = "pgx, thrifty"

var kept keptConns

var register = sync.OnceFunc(func() { sql.Register(thrifty, &kept) })

// keptConns are connections that nobody uses, by the URL.
type keptConns struct {
	mu   sync.Mutex
	idle map[string][]*stdlib.Conn
}

// mostKept is how many are kept for a URL: each is a session of a server that may have few.
const mostKept = 4

// Open implements driver.Driver.
func (k *keptConns) Open(url string) (driver.Conn, error) {
	for conn := k.take(url); conn != nil; conn = k.take(url) {
		if err := conn.ResetSession(context.Background()); err == nil {
			return &keptConn{conn, k, url}, nil
		}
		_ = conn.Close() // the server has ended it
	}
	conn, err := stdlib.GetDefaultDriver().Open(url)
	if err != nil {
		return nil, err
	}
	return &keptConn{conn.(*stdlib.Conn), k, url}, nil
}

func (k *keptConns) take(url string) *stdlib.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.idle[url]
	if len(all) == 0 {
		return nil
	}
	k.idle[url] = all[:len(all)-1]
	return all[len(all)-1]
}

// keep reports whether there is room for it.
func (k *keptConns) keep(url string, conn *stdlib.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.idle == nil {
		k.idle = make(map[string][]*stdlib.Conn)
	}
	if len(k.idle[url]) == mostKept {
		return false
	}
	k.idle[url] = append(k.idle[url], conn)
	return true
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
	if c.Conn.Conn().IsClosed() || !c.kept.keep(c.url, c.Conn) {
		return c.Conn.Close()
	}
	return nil
}

// ExecContext implements driver.ExecerContext.
func (c *keptConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if strings.HasPrefix(query, "CREATE DATABASE ") && strings.Contains(query, " WITH TEMPLATE ") {
		var copies bool
		err := c.Conn.Conn().QueryRow(ctx, `select current_setting('fsync') = 'off' and current_setting('server_version_num')::int >= 150000`).Scan(&copies)
		if err != nil {
			return nil, err
		}
		if copies {
			query += " STRATEGY FILE_COPY"
		}
	}
	return c.Conn.ExecContext(ctx, query, args)
}
