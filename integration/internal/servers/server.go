package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds the start of a server on a busy machine.
const patience = 2 * time.Minute

// Config says what a server is to be like. Nil is allowed.
type Config struct {
	// Parameters are settings of the server, such as max_connections=300. What is acknowledged outlives a SIGKILL of the server,
	// though not of the machine: fsync is off. Defaults to none.
	Parameters map[string]string

	// Primary is what a hot standby streams from, a server of the same place. Defaults to nil, a server of its own.
	Primary *Server

	// Megabytes is the room for the data, in a memory file system that does not outlive [Server.Kill]. Containers only.
	// Defaults to 0, as much as there is.
	Megabytes int

	// Ahead is how far the server's clock is ahead of this machine's, in seconds, or behind it if negative. It needs a C compiler
	// ([ErrNoClock]). Containers only. Defaults to 0.
	Ahead time.Duration
}

// Server is a Postgres. It stays where it is, at one URL, when it is killed and started again.
type Server struct {
	place   Place
	url     string
	version string
	body    body
}

// body is what runs a server: a container or a process.
type body interface {
	kill(context.Context) error
	start(context.Context) error
	freeze(context.Context) error
	thaw(context.Context) error
	stop() error
	says() string // the end of its log
}

// Start starts a server in the newest place at hand.
func Start(ctx context.Context, cfg *Config) (*Server, error) {
	places, err := AtHand(ctx)
	if err != nil {
		return nil, err
	}
	return places[len(places)-1].Start(ctx, cfg)
}

// Start starts a server and returns when it answers.
func (p Place) Start(ctx context.Context, cfg *Config) (*Server, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if cfg.Primary != nil && cfg.Primary.place.image != p.image {
		return nil, fmt.Errorf("servers: a standby must be in the place of its primary; start it there: %s", cfg.Primary.place)
	}
	begin := startLocal
	if p.Container() {
		begin = startContainer
	}
	s := &Server{place: p}
	var err error
	if s.body, s.url, err = begin(ctx, p, cfg); err != nil {
		return nil, fmt.Errorf("servers: %s: %w", p, err)
	}
	if err := s.answers(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	begun.add(s)
	return s, nil
}

// URL is where the server is reached, in the database postgres, by a superuser.
func (s *Server) URL() string { return s.url }

// Version is the server's, such as "17.12".
func (s *Server) Version() string { return s.version }

// Source says in a phrase what it is.
func (s *Server) Source() string { return s.place.String() }

// Place is where it was started.
func (s *Server) Place() Place { return s.place }

// Kill ends all its processes by SIGKILL. Its data stay, unless they were in a memory file system.
func (s *Server) Kill(ctx context.Context) error { return s.body.kill(ctx) }

// Start starts it again after [Server.Kill], on its data, and returns when it answers.
func (s *Server) Start(ctx context.Context) error {
	if err := s.body.start(ctx); err != nil {
		return fmt.Errorf("servers: %s: %w", s.place, err)
	}
	return s.answers(ctx)
}

// Freeze stops all its processes where they are, as SIGSTOP does, until [Server.Thaw].
func (s *Server) Freeze(ctx context.Context) error { return s.body.freeze(ctx) }

// Thaw has it go on after [Server.Freeze].
func (s *Server) Thaw(ctx context.Context) error { return s.body.thaw(ctx) }

// Stop ends and removes it. Further calls return what the first one returned.
func (s *Server) Stop() error { return s.body.stop() }

// answers waits until the server takes connections, and learns its version.
func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("servers: %s does not answer: %w; it says:\n%s", s.place, err, s.body.says())
		}
	}
}

func (s *Server) ask(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return conn.QueryRow(ctx, `select split_part(current_setting('server_version'), ' ', 1)`).Scan(&s.version)
}

// settings are the options of the server's command line.
func (c *Config) settings() []string {
	all := map[string]string{"fsync": "off"}
	maps.Copy(all, c.Parameters)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// RanOn prints the line by which a suite says what it ran on. The runner of `make suites` reads it.
func RanOn(all ...*Server) {
	for _, s := range all {
		_, _ = fmt.Fprintf(os.Stdout, "ran on: PostgreSQL %s, %s\n", s.version, s.place)
	}
}

// Measured prints a line with what a test has measured, which the runner of `make suites` shows with the suite.
func Measured(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, "measured: "+format+"\n", args...)
}
