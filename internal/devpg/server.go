package devpg

import "context"

// Server is a Postgres that can be connected to. Its methods are safe for
// concurrent use.
type Server struct {
	url     string
	version string
	source  string
	own     ownServer // nil for a server that was running before
}

// ownServer is a server that Start started.
type ownServer interface {
	pid() int
	stop() error
}

// Start finds or starts a Postgres and returns once it answers. The caller
// calls [Server.Stop] when done. Cancelling ctx during Start stops and removes
// what was begun; afterwards ctx has no effect. It returns an error when a
// configured URL does not lead to PostgreSQL 14 or newer, when no server can be
// found or downloaded, and when the server that was found does not come up.
func Start(ctx context.Context, cfg *Config) (*Server, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if g, ok := c.given(); ok {
		return g.connect(ctx, c.host.connectTimeout)
	}
	return startOwn(ctx, c)
}

// URL returns a postgres:// URL of the server's database. For a server that
// Start started, its user is postgres, a superuser, and its database postgres.
func (s *Server) URL() string { return s.url }

// Version returns the version of the server, such as "15.18".
func (s *Server) Version() string { return s.version }

// Source says in one phrase where the server comes from, for people to read.
func (s *Server) Source() string { return s.source }

// PID returns the process id of the server, or 0 if Start did not start it.
func (s *Server) PID() int {
	if s.own == nil {
		return 0
	}
	return s.own.pid()
}

// Stop ends the server at once, open connections included, and removes its
// data. It does nothing to a server that was running before Start. Further
// calls return what the first one returned. The error says that the server had
// ended earlier by itself, or that it could not be removed.
func (s *Server) Stop() error {
	if s.own == nil {
		return nil
	}
	return s.own.stop()
}
