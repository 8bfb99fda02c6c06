//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// StartOwn is Start, but for the URLs of the environment and of cfg: it always starts a server. It is for tests that
// change, break or kill theirs.
func StartOwn(ctx context.Context, cfg *Config) (*Server, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return startOwn(ctx, c)
}

// StartSupervised is StartOwn for a server that is started again, on its data, when it was killed, as a service manager
// would, but not as long as there is a file named [DownFile] beside its socket. [Server.PID] is that of the first life.
func StartSupervised(ctx context.Context, cfg *Config) (*Server, error) {
	return startScripted(ctx, cfg, script{
		"initdb":   `exec "$bin/initdb" "$@"`,
		"postgres": supervise,
	})
}

// StartStandby starts a hot standby that streams from primary, which must be a server of our own. It is up when it takes
// connections, which may be before it has caught up.
func StartStandby(ctx context.Context, primary *Server, cfg *Config) (*Server, error) {
	switch {
	case primary.own == nil:
		return nil, errors.New("devpg: StartStandby needs a primary that devpg has started; start it with StartOwn")
	case cfg != nil && cfg.ListenTCP: // its passwords are the primary's
		return nil, errors.New("devpg: a standby listens on a Unix socket only; leave Config.ListenTCP unset")
	}
	return startScripted(ctx, cfg, script{
		// The keeper makes the data with initdb; here they are a copy.
		"initdb":   `exec "$bin/pg_basebackup" --no-sync --checkpoint=fast -R -d ` + quote(primary.url) + ` -D "$PWD/data"`,
		"postgres": `exec "$bin/postgres" "$@"`,
	})
}

// DownFile keeps a supervised server that was killed from being started again, as long as it is there.
const DownFile = "down"

// supervise runs the server until the keeper asks for its end, which it does by TERM. The server ends at QUIT; as long as
// it has no handlers yet, at TERM. A new one cannot start while children of the old one live, hence the pause.
const supervise = `
end() { kill -TERM "$child"; kill -QUIT "$child"; } 2>/dev/null
trap 'over=1; end' TERM
while [ -z "$over" ]; do
	"$bin/postgres" "$@" &
	child=$!
	[ -z "$over" ] || end
	while ! wait "$child" && kill -0 "$child" 2>/dev/null; do :; done
	sleep 0.05
	while [ -z "$over" ] && [ -e "$PWD/` + DownFile + `" ]; do sleep 0.05; done
done`

// script is what stands in for programs of the server: shell scripts by name. $bin is the folder of the real ones.
type script map[string]string

// startScripted is startOwn with scripts in the place of programs.
func startScripted(ctx context.Context, cfg *Config, s script) (*Server, error) {
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, rejected, err := findBinaries(ctx, c, who)
	if err != nil {
		return nil, err
	}
	if bin.dir == "" {
		return nil, fmt.Errorf("devpg: no local server binaries; install PostgreSQL %d or newer; not used: %s", minMajor, strings.Join(rejected, "; "))
	}
	programs, err := s.write(bin.dir, who)
	if err != nil {
		return nil, fmt.Errorf("devpg: %w", err)
	}
	defer func() { _ = programs.remove() }() // by then each has been started, and is open
	bin.dir = programs.path
	return launch(ctx, c, bin, who)
}

// write puts the scripts into a folder of their own. Not in a memory file system, from which programs are often barred.
func (s script) write(bin string, who account) (*workDir, error) {
	work, err := newWorkDir([]string{filepath.Clean(os.TempDir()), "/tmp"}, who)
	if err != nil {
		return nil, err
	}
	for name, text := range s {
		text = "#!/bin/sh\nbin=" + quote(bin) + "\n" + text + "\n"
		err = errors.Join(err, work.writeFile(name, text, who), os.Chmod(filepath.Join(work.path, name), 0o700))
	}
	if err != nil {
		return nil, errors.Join(err, work.remove())
	}
	return work, nil
}

// quote makes one word of s for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
