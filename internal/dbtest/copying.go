package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"
)

// copying is the driver "pgx", with which the server clones a template by copying its files. Of its own accord it logs each page of
// the clone instead, which is half of what a short test costs. pgtestdb has no option for it.
const copying = "pgx that clones by copying files"

func init() { sql.Register(copying, copyingDriver{}) }

type copyingDriver struct{}

func (copyingDriver) Open(name string) (driver.Conn, error) {
	conn, err := stdlib.GetDefaultDriver().Open(name)
	if err != nil {
		return nil, err
	}
	return copyingConn{conn.(*stdlib.Conn)}, nil
}

type copyingConn struct{ *stdlib.Conn }

func (c copyingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	major, _, _ := strings.Cut(c.Conn.Conn().PgConn().ParameterStatus("server_version"), ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 15 && strings.HasPrefix(query, "CREATE DATABASE ") && strings.Contains(query, " WITH TEMPLATE ") {
		query += " STRATEGY FILE_COPY"
	}
	return c.Conn.ExecContext(ctx, query, args)
}
