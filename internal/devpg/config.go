package devpg

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Environment variables that name a server to use instead of starting one, in
// this order.
const (
	EnvTestURL = "TXONCE_TEST_DATABASE_URL"
	EnvURL     = "DATABASE_URL"
)

// connectTimeout bounds the first connection to a server. A server that
// answers later than that is of no use to a test run.
const connectTimeout = 10 * time.Second

// Config says which Postgres to use, or how to start one. Nil is allowed.
type Config struct {
	// URL names a running server, postgres://user:password@host:port/database.
	// Defaults to the value of TXONCE_TEST_DATABASE_URL, then of DATABASE_URL;
	// if all are empty, a server is started.
	URL string

	// Parameters are further server settings, such as max_connections=300.
	// They win over our own and have no effect on a server given by URL.
	// Defaults to none.
	Parameters map[string]string

	// Durable keeps fsync, synchronous_commit and full_page_writes on and the
	// data on disk, as a server with data worth keeping would have them.
	// Defaults to false.
	Durable bool

	// ListenTCP makes the server listen on a free port of 127.0.0.1, with a
	// random password, and URL point there. Defaults to false, a Unix socket
	// that only the caller's own user (and root) can reach.
	ListenTCP bool

	// Logger is told about slow steps (downloads) at level Info and about the
	// others at level Debug. Defaults to a logger that discards everything.
	Logger *slog.Logger

	host host
}

// ForTests returns [Config].Parameters for test runs, which open many pools at once and many sessions that do little. Each session
// maps the pages of the server's buffer cache that it touches, one by one, so a small cache costs less than a large one.
func ForTests() map[string]string {
	return map[string]string{"max_connections": "300", "shared_buffers": "16MB"}
}

// host is what Start takes from the machine. Tests replace parts of it.
type host struct {
	// getenv reads the environment. Defaults to os.Getenv.
	getenv func(string) string

	// folders are glob patterns of install folders, searched after PATH.
	// Defaults to installFolders.
	folders []string

	// bases are the directories to put data in, best first.
	// Defaults to dataBases.
	bases []string

	// connectTimeout bounds the first connection. Defaults to 10 s.
	connectTimeout time.Duration

	// freePort chooses a port of 127.0.0.1. Defaults to asking the system.
	freePort func() (int, error)

	// cache is where downloaded binaries stay. Defaults to a folder in the
	// user's cache directory.
	cache string

	// repository is a repository to download from. Defaults to the one
	// that embedded-postgres has built in.
	repository string
}

// withDefaults returns a checked copy of c with every field set.
func (c *Config) withDefaults() (*Config, error) {
	var d Config
	if c != nil {
		d = *c
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.host.getenv == nil {
		d.host.getenv = os.Getenv
	}
	if d.host.folders == nil {
		d.host.folders = installFolders()
	}
	if d.host.bases == nil {
		d.host.bases = dataBases(d.Durable)
	}
	if d.host.connectTimeout == 0 {
		d.host.connectTimeout = connectTimeout
	}
	if d.host.freePort == nil {
		d.host.freePort = freePort
	}
	d.Parameters = maps.Clone(d.Parameters)
	return &d, d.validate()
}

func (c *Config) validate() error {
	name := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
	// Our start-up and clean-up rest on these.
	reserved := []string{
		"port", "listen_addresses", "unix_socket_directories",
		"data_directory", "config_file", "hba_file",
	}
	for _, k := range slices.Sorted(maps.Keys(c.Parameters)) {
		switch {
		case !name.MatchString(k):
			return fmt.Errorf("devpg: Config.Parameters: %q is not the name of a server setting; use names like fsync", k)
		case slices.Contains(reserved, strings.ToLower(k)):
			return fmt.Errorf("devpg: Config.Parameters: %s is set by devpg itself; leave it out (Config.ListenTCP asks for a TCP port)", k)
		case strings.ContainsRune(c.Parameters[k], 0):
			return fmt.Errorf("devpg: Config.Parameters: the value of %s contains a NUL byte; remove it", k)
		}
	}
	return nil
}

// serverArgs are the command line options of postgres, except for its socket
// directory and port.
func (c *Config) serverArgs() []string {
	// File-backed dynamic shared memory lives in the data directory, so that
	// even a killed server leaves nothing in /dev/shm.
	args := []string{"-c", "dynamic_shared_memory_type=mmap"}
	if !c.Durable {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	for _, k := range slices.Sorted(maps.Keys(c.Parameters)) {
		args = append(args, "-c", k+"="+c.Parameters[k])
	}
	return args
}
