//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockName = "lock"

// sweepAge is how long a directory may stay without a lock. Making one takes
// a millisecond; only a process killed in that moment leaves such a directory.
const sweepAge = 10 * time.Minute

// sweep removes directories in base whose parent, keeper and server are all
// gone. What belongs to somebody who lives, or who is out of our reach, stays.
func sweep(base string, log *slog.Logger) {
	dirs, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*")) // fails on bad patterns only
	for _, dir := range dirs {
		if !abandoned(dir) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Debug("devpg: leftover cannot be removed", "dir", dir, "error", err)
			continue
		}
		log.Debug("devpg: leftover removed", "dir", dir)
	}
}

// abandoned tells whether nobody holds the lock of dir. The lock is that of an
// open file, shared by the processes of one server; it goes with the last one.
func abandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	// Whatever another user put in place of the lock, neither follow nor wait.
	flags := os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	lock, err := os.OpenFile(filepath.Join(dir, lockName), flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Since(info.ModTime()) > sweepAge
	}
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	if info, err := lock.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	return syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
