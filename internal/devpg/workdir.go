//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	dirPrefix  = "txonce-pg-"
	socketName = ".s.PGSQL.65535" // the longest

	// maxSocketPath is the shortest limit among the systems we know (macOS;
	// Linux allows 107).
	maxSocketPath = 103
)

// workDir is the directory of one server: socket, log, lock and data.
type workDir struct {
	path   string
	medium string   // "tmpfs" or "disk"
	lock   *os.File // held by us, the keeper and the server
}

// dataBases are the directories to put servers in, best first. Not the
// directories of tests: root's have parents that the server cannot enter.
func dataBases(durable bool) []string {
	var bases []string
	if !durable && roomyTmpfs("/dev/shm") { // an fsync there costs nothing and keeps nothing
		bases = append(bases, "/dev/shm")
	}
	if bases = append(bases, filepath.Clean(os.TempDir())); bases[len(bases)-1] != "/tmp" {
		bases = append(bases, "/tmp")
	}
	return bases
}

// newWorkDir makes a directory in the first base that will have it.
func newWorkDir(bases []string, who account) (*workDir, error) {
	var causes []string
	for _, base := range bases {
		w, err := makeWorkDir(base, who)
		if err == nil {
			return w, nil
		}
		causes = append(causes, err.Error())
	}
	return nil, fmt.Errorf("devpg: no place for a server's data: %s; set TMPDIR to a directory that user %s may write to", strings.Join(causes, "; "), who.name)
}

func makeWorkDir(base string, who account) (*workDir, error) {
	if err := usableBy(who, base); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return nil, err
	}
	w := &workDir{path: path, medium: mediumOf(path)}
	if err := w.prepare(who); err != nil {
		w.remove()
		return nil, err
	}
	return w, nil
}

// prepare locks the directory and hands it to who. The lock gets its name only
// when it is held, so that no sweeper ever sees it free.
func (w *workDir) prepare(who account) error {
	if n := len(filepath.Join(w.path, socketName)); n > maxSocketPath {
		return fmt.Errorf("%s is too long for the path of a socket (%d bytes, %d are possible)", w.path, n, maxSocketPath)
	}
	fresh := filepath.Join(w.path, "lock.new")
	lock, err := os.OpenFile(fresh, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.lock = lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", fresh, err)
	}
	if err := os.Rename(fresh, filepath.Join(w.path, lockName)); err != nil {
		return err
	}
	return who.chown(w.path)
}

// writeFile puts a file into the directory that only who can read.
func (w *workDir) writeFile(name, content string, who account) error {
	path := filepath.Join(w.path, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return who.chown(path)
}

// remove removes the directory and gives up the lock, in this order: a sweeper
// is not to find it half removed.
func (w *workDir) remove() error {
	err := os.RemoveAll(w.path)
	if w.lock != nil {
		_ = w.lock.Close()
	}
	return err
}

// usableBy returns an error if the user that we hand over to cannot reach base
// or cannot remove a directory from it, which is the keeper's task. For the user
// who runs us, making a directory is test enough.
func usableBy(who account, base string) error {
	if !who.dropped {
		return nil
	}
	dir, err := filepath.EvalSymlinks(base)
	if err != nil {
		return err
	}
	for need := os.FileMode(0o003); ; need, dir = 0o001, filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		owned := ok && st.Uid == who.uid && info.Mode()&(need<<6) == need<<6
		if !owned && info.Mode()&need != need {
			return fmt.Errorf("user %s may not use %s", who.name, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
