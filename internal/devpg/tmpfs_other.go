//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package devpg

// roomyTmpfs is false: these systems have no /dev/shm in memory.
func roomyTmpfs(string) bool { return false }

// mediumOf returns "disk".
func mediumOf(string) string { return "disk" }
