//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = 2 * time.Minute // generous: a cold disk, a busy machine
	portTries    = 5
	portTaken    = "Address already in use"
)

// errPortTaken is returned when somebody took the port between our choice and
// the server's start.
var errPortTaken = errors.New("devpg: the chosen port was taken")

// startOwn finds server binaries and starts a server.
func startOwn(ctx context.Context, c *Config) (*Server, error) {
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, rejected, err := findBinaries(ctx, c, who)
	if err != nil {
		return nil, err
	}
	if bin.dir == "" {
		if bin, err = fetchBinaries(ctx, c, who); err != nil {
			return nil, missingError(c, rejected, err)
		}
	}
	for _, base := range c.host.bases {
		sweep(base, c.Logger)
	}
	for range portTries {
		var s *Server
		s, err = launch(ctx, c, bin, who)
		if !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
	return nil, fmt.Errorf("%w, %d times; leave Config.ListenTCP unset to use a socket", err, portTries)
}

// launch starts one server and waits until it answers.
func launch(ctx context.Context, c *Config, bin binaries, who account) (*Server, error) {
	begin := time.Now()
	work, err := newWorkDir(c.host.bases, who)
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	args, address, err := listen(c, work.path, password)
	if err == nil {
		err = work.writeFile("password", password, who)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("devpg: %w", err), work.remove())
	}
	k, err := startKeeper(work, keeperScript, bin.dir, append(args, c.serverArgs()...), who)
	if err != nil {
		return nil, errors.Join(err, work.remove())
	}
	v, err := answer(ctx, k, address)
	if err != nil {
		return nil, startError(ctx, k, bin, err)
	}
	c.Logger.Debug("devpg: server started", "binaries", bin.dir, "dir", work.path, "pid", k.server, "took", time.Since(begin))
	return &Server{
		url:     address,
		version: v.text,
		source:  fmt.Sprintf("%s, run as user %s, data in %s", bin.origin, who.name, work.medium),
		own:     k,
	}, nil
}

// listen chooses where the server listens: options of postgres, and the URL.
func listen(c *Config, dir, password string) ([]string, string, error) {
	args := []string{"-c", "unix_socket_directories=" + dir}
	if !c.ListenTCP {
		u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres"}
		u.RawQuery = url.Values{"host": {dir}, "port": {"5432"}}.Encode()
		return append(args, "-c", "listen_addresses=", "-c", "port=5432"), u.String(), nil
	}
	port, err := c.host.freePort()
	if err != nil {
		return nil, "", fmt.Errorf("no port on 127.0.0.1: %w", err)
	}
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return append(args, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port)), u.String(), nil
}

// answer waits until the server answers a client, with its version.
func answer(ctx context.Context, k *keeper, address string) (serverVersion, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := k.waitReady(ctx, k.readyPID); err != nil {
		return serverVersion{}, err
	}
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return serverVersion{}, err
	}
	return askVersion(ctx, cfg)
}

// startError stops the keeper and reports what the server said. That the server
// has ended, which stopping reports, is in err.
func startError(ctx context.Context, k *keeper, bin binaries, err error) error {
	_ = k.stop()
	if ctx.Err() != nil {
		return fmt.Errorf("devpg: start of PostgreSQL given up: %w", context.Cause(ctx))
	}
	if strings.Contains(k.lastLog, portTaken) {
		return errPortTaken
	}
	return fmt.Errorf("devpg: PostgreSQL %s of %s did not start: %w; remedy what its log says, or set %s to the URL of a running server; last lines of the log:\n%s",
		bin.version.text, bin.dir, err, EnvTestURL, k.lastLog)
}
