//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keeperPID lets helpers report it.
func (k *keeper) keeperPID() int { return k.cmd.Process.Pid }

// deaths are the ways for a parent to end.
func deaths() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"exit":    0, // os.Exit without Stop
		"SIGINT":  syscall.SIGINT,
		"SIGKILL": syscall.SIGKILL,
	}
}

func TestServerDiesWithParent(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	for mode, sig := range deaths() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dieWith(t, testBinary(t), mode, sig, nil)
		})
	}
}

// The same as nobody, where the server runs as the user of its parent.
func TestServerDiesWithParentOfOrdinaryUser(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	binary, as := asNobody(t)
	for _, mode := range []string{"stop", "SIGKILL"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := dieWith(t, binary, mode, deaths()[mode], as)
			if !strings.Contains(s.Source, "run as user nobody") {
				t.Errorf("Source() = %q", s.Source)
			}
		})
	}
}

// dieWith starts a helper, has it die, and waits until nothing of it is left.
func dieWith(t *testing.T, binary, mode string, sig syscall.Signal, set func(*exec.Cmd)) started {
	t.Helper()
	if sig != 0 && signal.Ignored(sig) {
		t.Skipf("%s is ignored, which helpers inherit", sig)
	}
	base := newBase(t)
	p := startHelper(t, binary, mode, set, base)
	s := p.report(t)
	if s.Err != "" {
		t.Fatal(s.Err)
	}
	if err := syscall.Kill(s.PID, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		t.Fatalf("no server: %v", err)
	}
	if sig != 0 {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	} else {
		_ = p.stdin.Close()
	}
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Wait() // a death is no success
	begin := time.Now()
	eventually(t, "server gone", func() bool { return errors.Is(syscall.Kill(s.PID, 0), syscall.ESRCH) })
	eventually(t, "directory gone", func() bool { return len(entries(t, base)) == 0 })
	t.Logf("gone %s after the parent", time.Since(begin))
	return s
}

// A parent that dies while initdb runs, or while the server starts.
func TestStartDiesWithParent(t *testing.T) {
	t.Parallel()
	needBinaries(t)
	for _, moment := range []string{"data", "data/base", "data/postmaster.pid"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			base := newBase(t)
			p := startHelper(t, testBinary(t), "SIGKILL", nil, base)
			eventually(t, moment, func() bool {
				found, _ := filepath.Glob(filepath.Join(base, "*", moment))
				return len(found) > 0
			})
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "directory gone", func() bool { return len(entries(t, base)) == 0 })
			eventually(t, "processes gone", func() bool { return len(processesNaming(base)) == 0 })
		})
	}
}

// processesNaming lists processes with s in their command line. Without /proc
// it knows none.
func processesNaming(s string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), s) {
			found = append(found, f)
		}
	}
	return found
}

func TestServerThatEndsByItself(t *testing.T) {
	t.Parallel()
	srv := mustStart(t, localConfig(newBase(t)))
	k, ok := srv.own.(*keeper)
	if !ok {
		t.Fatalf("%T is not a keeper", srv.own)
	}
	if err := syscall.Kill(srv.PID(), syscall.SIGINT); err != nil { // fast shutdown
		t.Fatal(err)
	}
	<-k.exited
	err := srv.Stop()
	if err == nil || !strings.Contains(err.Error(), "had ended before Stop") || !strings.Contains(err.Error(), "database system is shut down") {
		t.Errorf("Stop() = %v, want an error with the log", err)
	}
	if again := srv.Stop(); again != err {
		t.Errorf("second Stop() = %v", again)
	}
}

func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	srv := mustStart(t, localConfig(newBase(t)))
	k, ok := srv.own.(*keeper)
	if !ok {
		t.Fatalf("%T is not a keeper", srv.own)
	}
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-k.exited
	show(t, srv.URL(), "port") // the server lives on
	if err := srv.Stop(); err == nil {
		t.Error("Stop() = nil, want the keeper's end reported")
	}
	if err := syscall.Kill(srv.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server is still there: %v", err)
	}
}

// asNobody returns a copy of the test binary that everybody can run, and what
// makes a command run as nobody.
func asNobody(t *testing.T) (binary string, as func(*exec.Cmd)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; as an ordinary user, all tests are this one")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, uerr := strconv.ParseInt(nobody.Uid, 10, 64)
	gid, gerr := strconv.ParseInt(nobody.Gid, 10, 64)
	if err := errors.Join(uerr, gerr); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "devpg-test-") // t.TempDir is in a private directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b, err := os.ReadFile(testBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "devpg.test")
	if err := errors.Join(os.WriteFile(binary, b, 0o755), os.Chmod(binary, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return binary, func(cmd *exec.Cmd) {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
}
