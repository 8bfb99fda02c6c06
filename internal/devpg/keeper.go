//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// watchedScript is how a script of ours begins. watched runs a program and ends it with the parent: descriptor 3 is the
// read end of a pipe from the parent, which never writes, so end of file means that the parent has stopped the server or
// has died, of whatever cause. Descriptor 4 is the lock, there to be held.
//
// The program runs in the background, where the shell makes it ignore QUIT, and
// takes a moment to set up its own handlers. TERM ends it in that moment; later
// QUIT does, at once and without waiting for clients.
const watchedScript = `
umask 077
bin=$1 dir=$2
shift 2
watched() {
	"$@" </dev/null 3<&- &
	child=$!
	{ read -r _; kill -TERM "$child"; kill -QUIT "$child"; } <&3 2>/dev/null &
	watcher=$!
	wait "$child"
	status=$?
	kill "$watcher" 2>/dev/null
	return "$status"
}
`

// removeScript is how it ends: with the directory.
const removeScript = `
status=$?
rm -rf -- "$dir"
exit "$status"
`

// keeperScript makes the cluster, runs the server and removes the directory afterwards.
const keeperScript = watchedScript + `
watched "$bin/initdb" --no-sync --username=postgres --encoding=UTF8 --no-locale \
	--auth-local=trust --auth-host=scram-sha-256 --pwfile="$dir/password" -D "$dir/data" >/dev/null &&
	watched "$bin/postgres" -D "$dir/data" "$@"` + removeScript

const (
	stopTimeout = 15 * time.Second
	readyPoll   = 2 * time.Millisecond // pg_ctl's own, 100 ms, would double the wait
)

// keeper is the shell that runs a server, seen from the parent.
type keeper struct {
	cmd  *exec.Cmd
	work *workDir
	pipe *os.File // open as long as the server is to run
	log  *os.File // stays readable when the directory is gone

	exited  chan struct{}
	exitErr error // may be read when exited is closed
	server  int   // the server's process id, 0 until it is ready

	once    sync.Once
	stopErr error
	lastLog string // the end of the log, may be read after stop
}

// startKeeper starts the shell with a script of ours. On success it owns work.
func startKeeper(work *workDir, script, bin string, args []string, who account) (*keeper, error) {
	log, err := os.OpenFile(filepath.Join(work.path, "log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("devpg: server log: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("devpg: pipe to the server: %w", err)
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "devpg", bin, work.path}, args...)...)
	cmd.Dir = work.path
	cmd.Env = serverEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{r, work.lock}
	cmd.SysProcAttr = who.sysProcAttr(true) // a session of its own, out of Ctrl-C's reach
	if err := cmd.Start(); err != nil {
		_, _ = w.Close(), log.Close()
		return nil, fmt.Errorf("devpg: cannot run /bin/sh as user %s: %w", who.name, err)
	}
	k := &keeper{cmd: cmd, work: work, pipe: w, log: log, exited: make(chan struct{})}
	go func() {
		k.exitErr = cmd.Wait()
		close(k.exited)
	}()
	return k, nil
}

// serverEnv is the environment of server programs: nothing that changes what
// they do, and messages in English, for we read them.
func serverEnv() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// waitReady returns when ready, which is asked again and again, knows the process that takes connections.
func (k *keeper) waitReady(ctx context.Context, ready func() (pid int, ok bool)) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-k.exited:
			return fmt.Errorf("the server ended: %s", k.exitCause())
		case <-tick.C:
			if pid, ok := ready(); ok {
				k.server = pid
				return nil
			}
		}
	}
}

// readyPID reads the file that the server keeps about itself: the process id is
// on the first line, its state on the eighth.
func (k *keeper) readyPID() (int, bool) {
	b, err := os.ReadFile(filepath.Join(k.work.path, "data", "postmaster.pid"))
	if err != nil {
		return 0, false
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[7]) != "ready" {
		return 0, false
	}
	var pid int
	if _, err := fmt.Sscan(lines[0], &pid); err != nil {
		return 0, false
	}
	return pid, true
}

func (k *keeper) exitCause() string {
	if k.exitErr == nil {
		return "exit status 0"
	}
	return k.exitErr.Error()
}

func (k *keeper) pid() int { return k.server }

func (k *keeper) stop() error {
	k.once.Do(func() { k.stopErr = k.shutdown() })
	return k.stopErr
}

func (k *keeper) shutdown() error {
	early, killed := k.hasExited(), false
	_ = k.pipe.Close()
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-k.exited:
	case <-limit.C:
		// Not waited for yet, so the id is still ours. The server's own
		// children go when they miss their parent.
		killed = syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL) == nil
		<-k.exited
	}
	if early {
		k.waitGone(limit.C)
	}
	k.lastLog = k.logTail()
	_ = k.log.Close()
	err := k.work.remove()
	switch {
	case early:
		return fmt.Errorf("devpg: the server had ended before Stop (%s), see why in its log; last lines:\n%s", k.exitCause(), k.lastLog)
	case killed:
		return fmt.Errorf("devpg: the server did not stop within %s and was killed; last lines of its log:\n%s", stopTimeout, k.lastLog)
	case err != nil:
		return fmt.Errorf("devpg: the server has stopped, but its directory is left; remove it: %w", err)
	}
	return nil
}

// waitGone waits for a server that outlived its shell: somebody killed that, and
// the watcher has only now seen the end of the pipe.
func (k *keeper) waitGone(limit <-chan time.Time) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for k.server != 0 && syscall.Kill(k.server, 0) == nil {
		select {
		case <-tick.C:
		case <-limit:
			return
		}
	}
}

func (k *keeper) hasExited() bool {
	select {
	case <-k.exited:
		return true
	default:
		return false
	}
}

// logTail returns the last lines of the server log.
func (k *keeper) logTail() string {
	const bytes, lines = 16 << 10, 20
	info, err := k.log.Stat()
	if err != nil {
		return "(unreadable: " + err.Error() + ")"
	}
	b := make([]byte, min(info.Size(), bytes))
	n, _ := k.log.ReadAt(b, info.Size()-int64(len(b))) // what was read is what we show
	all := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
