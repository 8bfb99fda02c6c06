//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package devpg

import (
	"context"
	"fmt"
	"runtime"

	"github.com/jackc/pgx/v5/pgconn"
)

// startOwn fails: the clean-up of our own servers rests on a Unix shell, on
// file locks and on sockets in the file system.
func startOwn(context.Context, *Config) (*Server, error) {
	return nil, fmt.Errorf("devpg: servers cannot be started on %s; start PostgreSQL %d or newer yourself and set %s to its URL", runtime.GOOS, minMajor, EnvTestURL)
}

// startPooler fails for the same reasons.
func startPooler(context.Context, []string, *pgconn.Config, map[string]string) (*Pooler, error) {
	return nil, fmt.Errorf("devpg: pgbouncer cannot be started on %s; run the tests without a pooler", runtime.GOOS)
}

func installFolders() []string { return nil }

func dataBases(bool) []string { return nil }
