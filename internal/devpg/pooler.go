package devpg

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pooler is a pgbouncer in transaction mode in front of one server. Its methods are safe for concurrent use.
type Pooler struct {
	dir     string // of its socket
	admin   string // may ask it for figures
	version string
	own     ownServer
}

const poolerPort = 6432 // of a socket in a directory of its own: nobody else can have it

// StartPooler starts a pgbouncer in transaction mode in front of the server at serverURL, and returns once it answers. It
// lets in the user of that URL and users, names with passwords, and shows the server the same ones. It need not reach the
// server before a client wants to. It ends like a server that [Start] started, by [Pooler.Stop] or with the process, and
// leaves nothing behind. The error says what is missing.
func StartPooler(ctx context.Context, serverURL string, users map[string]string) (*Pooler, error) {
	cfg, err := pgxpool.ParseConfig(serverURL) // its parser, for URLs with pool_ parameters are fine with us
	if err != nil {
		return nil, fmt.Errorf("devpg: the pooler's server: %w", err)
	}
	return startPooler(ctx, dataBases(false), &cfg.ConnConfig.Config, users)
}

// Route makes cfg, whose server must be the pooler's, connect through the pooler.
func (p *Pooler) Route(cfg *pgconn.Config) {
	cfg.Host, cfg.Port = p.dir, poolerPort
	cfg.TLSConfig, cfg.Fallbacks = nil, nil // it is a Unix socket
}

// Version returns the version of pgbouncer, such as "1.18.0".
func (p *Pooler) Version() string { return p.version }

// PID returns the process id of pgbouncer.
func (p *Pooler) PID() int { return p.own.pid() }

// Stop ends pgbouncer at once, open connections included. Further calls return what the first one returned. The error says
// that it had ended earlier by itself, or that it could not be removed.
func (p *Pooler) Stop() error { return p.own.stop() }

// Transactions returns how many transactions it has passed on, statements outside of one included.
func (p *Pooler) Transactions(ctx context.Context) (int64, error) {
	conn, err := p.console(ctx)
	if err != nil {
		return 0, fmt.Errorf("devpg: the pooler's console: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.Exec(ctx, "show stats").ReadAll()
	if err != nil {
		return 0, fmt.Errorf("devpg: the pooler's console: %w", err)
	}
	var sum int64
	for _, result := range results {
		column := -1
		for i, field := range result.FieldDescriptions {
			if field.Name == "total_xact_count" {
				column = i
			}
		}
		if column < 0 {
			return 0, fmt.Errorf("devpg: pgbouncer %s does not count transactions; use 1.8 or newer", p.version)
		}
		for _, row := range result.Rows {
			if database := string(row[0]); database == "pgbouncer" {
				continue // the console itself
			}
			n, err := strconv.ParseInt(string(row[column]), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("devpg: the pooler's console: %w", err)
			}
			sum += n
		}
	}
	return sum, nil
}

// console connects to the database in which pgbouncer answers for itself. It knows the simple protocol only.
func (p *Pooler) console(ctx context.Context) (*pgconn.PgConn, error) {
	u := url.URL{Scheme: "postgres", User: url.User(p.admin), Path: "/pgbouncer"}
	u.RawQuery = url.Values{"host": {p.dir}, "port": {strconv.Itoa(poolerPort)}}.Encode()
	return pgconn.Connect(ctx, u.String())
}
