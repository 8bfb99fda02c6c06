package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// given is a URL that somebody set, and the name of the place.
type given struct {
	name string
	url  string
}

// given returns the first URL that is set.
func (c *Config) given() (given, bool) {
	for _, g := range []given{
		{"Config.URL", c.URL},
		{EnvTestURL, c.host.getenv(EnvTestURL)},
		{EnvURL, c.host.getenv(EnvURL)},
	} {
		if g.url != "" {
			return g, true
		}
	}
	return given{}, false
}

// connect checks that the URL leads to a server that txonce can use.
func (g given) connect(ctx context.Context, timeout time.Duration) (*Server, error) {
	cfg, err := g.parse()
	if err != nil {
		return nil, err
	}
	tctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v, err := askVersion(tctx, cfg)
	if err == nil {
		err = v.check()
	}
	if err != nil {
		return nil, g.explain(ctx, err, timeout)
	}
	return &Server{url: g.url, version: v.text, source: g.name}, nil
}

func (g given) parse() (*pgx.ConnConfig, error) {
	if !strings.HasPrefix(g.url, "postgres://") && !strings.HasPrefix(g.url, "postgresql://") {
		return nil, fmt.Errorf("devpg: %s is set but does not begin with postgres://; set it to postgres://user:password@host:port/database, or %s", g.name, g.unset())
	}
	// The pool's parser, for URLs with pool_ parameters are fine with us.
	cfg, err := pgxpool.ParseConfig(g.url)
	if err != nil {
		return nil, fmt.Errorf("devpg: %s cannot be parsed: %s; correct it, or %s", g.name, g.parseCause(err), g.unset())
	}
	return cfg.ConnConfig, nil
}

// parseCause says what is wrong with the URL without repeating any of it that
// might be a password. Where the parts cannot be told apart, it repeats nothing.
func (g given) parseCause(err error) string {
	if _, uerr := url.Parse(g.url); uerr != nil {
		return "it is not of the form postgres://user:password@host:port/database (in a password, write characters such as / ? # @ % in percent-encoding)"
	}
	text := err.Error() // pgx: cannot parse `URL`: cause
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	return g.mask(text)
}

// mask puts the text on one line and blots out the passwords of the URL. One that is also the user's, the database's or
// the host's name says nothing where it stands, and its blots would make the text unreadable.
func (g given) mask(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	u, err := url.Parse(g.url)
	if err != nil {
		return text
	}
	password, _ := u.User.Password()
	names := []string{"", u.User.Username(), strings.TrimPrefix(u.Path, "/"), u.Hostname()}
	for _, secret := range []string{password, u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if !slices.Contains(names, secret) {
			text = strings.ReplaceAll(text, secret, "xxxxx")
			text = strings.ReplaceAll(text, url.QueryEscape(secret), "xxxxx")
		}
	}
	return text
}

// explain names the variable, the cause and the remedy.
func (g given) explain(ctx context.Context, err error, timeout time.Duration) error {
	if ctx.Err() != nil {
		return fmt.Errorf("devpg: connecting to the server of %s: %w", g.name, context.Cause(ctx))
	}
	var pgErr *pgconn.PgError
	remedy := "check that it names a PostgreSQL server"
	switch {
	case errors.As(err, &pgErr) && strings.HasPrefix(pgErr.Code, "28"):
		remedy = "check its user name and password"
	case errors.As(err, &pgErr) && pgErr.Code == "3D000":
		remedy = "create that database, or name another"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		remedy = "start that server, or correct host and port"
	case errors.Is(err, context.DeadlineExceeded):
		remedy = fmt.Sprintf("nothing answered within %s: check host, port and firewall", timeout)
	case pgErr == nil && !isConnectError(err):
		remedy = "name another server"
	}
	return fmt.Errorf("devpg: %s is set but cannot be used: %s; %s, or %s", g.name, g.mask(err.Error()), remedy, g.unset())
}

func isConnectError(err error) bool {
	var cerr *pgconn.ConnectError
	return errors.As(err, &cerr)
}

// unset is the last part of a remedy: how to have a server found or started.
func (g given) unset() string {
	if strings.HasPrefix(g.name, "Config.") {
		return "leave " + g.name + " empty to have a server found or started"
	}
	return "unset " + g.name + " to have a server found or started"
}

// askVersion connects once and returns the version that the server reports.
func askVersion(ctx context.Context, cfg *pgx.ConnConfig) (serverVersion, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return serverVersion{}, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return parseVersion(conn.PgConn().ParameterStatus("server_version"))
}
