//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// poolerScript runs pgbouncer and removes its directory afterwards.
const poolerScript = watchedScript + `watched "$bin" "$dir/pgbouncer.ini"` + removeScript

// poolerConfig is pgbouncer's. It keeps no connection for long, since each test has a database of its own and all share
// the server's max_connections; it tries a server that did not answer again at once, not after 15 s, and lets clients wait
// 5 s for it, not 60; and it asks for no
// password, for its socket is in a directory that only our own user can enter. No startup parameter is ignored: what a
// test sets and pgbouncer would drop is an error.
const poolerConfig = `[databases]
* = host=%s port=%d
[pgbouncer]
pool_mode = transaction
listen_addr =
listen_port = %d
unix_socket_dir = %s
pidfile = %s
auth_type = trust
auth_file = %s
admin_users = %s
max_client_conn = 2000
default_pool_size = 100
server_idle_timeout = 2
server_login_retry = 0.1
client_login_timeout = 5
server_tls_sslmode = %s
log_connections = 0
log_disconnections = 0
log_stats = 0
`

func startPooler(ctx context.Context, bases []string, server *pgconn.Config, users map[string]string) (*Pooler, error) {
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, version, err := findPooler(ctx, who)
	if err != nil {
		return nil, err
	}
	for _, base := range bases {
		sweep(base, slog.New(slog.DiscardHandler))
	}
	work, err := newWorkDir(bases, who)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(users)
	if all == nil {
		all = make(map[string]string)
	}
	all[server.User] = server.Password
	err = errors.Join(
		work.writeFile("pgbouncer.ini", poolerIni(work, server), who),
		work.writeFile("users", userList(all), who))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("devpg: pgbouncer: %w", err), work.remove())
	}
	k, err := startKeeper(work, poolerScript, bin, nil, who)
	if err != nil {
		return nil, errors.Join(err, work.remove())
	}
	p := &Pooler{dir: work.path, admin: server.User, version: version, own: k}
	wait, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := k.waitReady(wait, func() (int, bool) { return p.ready(wait) }); err != nil {
		_ = k.stop() // that it has ended is in err
		return nil, fmt.Errorf("devpg: pgbouncer %s did not start: %w; remedy what its log says:\n%s", version, err, k.lastLog)
	}
	return p, nil
}

func poolerIni(work *workDir, server *pgconn.Config) string {
	// Encryption is the server's to demand. Certificates are not what is tested.
	tls := "prefer"
	if strings.HasPrefix(server.Host, "/") || server.TLSConfig == nil && len(server.Fallbacks) == 0 {
		tls = "disable"
	}
	in := func(name string) string { return filepath.Join(work.path, name) }
	return fmt.Sprintf(poolerConfig, server.Host, server.Port, poolerPort, work.path, in("pid"), in("users"), server.User, tls)
}

// userList is the file that pgbouncer knows users from: names and passwords in quotes, which are doubled inside.
func userList(users map[string]string) string {
	quoted := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(users)) {
		b.WriteString(quoted(name) + " " + quoted(users[name]) + "\n")
	}
	return b.String()
}

// ready returns the process id of a pooler that answers.
func (p *Pooler) ready(ctx context.Context) (int, bool) {
	b, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, false
	}
	conn, err := p.console(ctx)
	if err != nil {
		return 0, false
	}
	return pid, conn.Close(ctx) == nil
}

// ErrNoPooler is returned when a pooler is to be started and none is installed.
var ErrNoPooler = errors.New("devpg: no pgbouncer; install it (scripts/setup.sh pooler does), or run the tests without a pooler")

// findPooler returns the program and its version.
func findPooler(ctx context.Context, who account) (bin, version string, err error) {
	bin, err = exec.LookPath("pgbouncer")
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"} { // not in everybody's PATH
		if err != nil {
			bin, err = exec.LookPath(filepath.Join(dir, "pgbouncer"))
		}
	}
	if err != nil {
		return "", "", ErrNoPooler
	}
	cmd := exec.CommandContext(ctx, bin, "--version")
	cmd.Dir = "/"
	cmd.Env = serverEnv()
	cmd.SysProcAttr = who.sysProcAttr(false)
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("devpg: user %s cannot run %s --version: %w", who.name, bin, err)
	}
	words := strings.Fields(string(out)) // PgBouncer 1.18.0, and libraries on further lines
	if len(words) < 2 {
		return "", "", fmt.Errorf("devpg: %s --version says %q, which is no version", bin, out)
	}
	return bin, words[1], nil
}
