package devpg

import "syscall"

const (
	tmpfsMagic = 0x01021994
	minRoom    = 1 << 30 // bytes; a container's default of 64 MB is too small
)

// roomyTmpfs tells whether dir is in memory, with room for a server's data.
func roomyTmpfs(dir string) bool {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return false
	}
	// The widths of the fields differ between architectures.
	return int64(st.Type) == tmpfsMagic && st.Bavail*uint64(st.Bsize) > minRoom
}

// mediumOf returns "tmpfs" or "disk".
func mediumOf(dir string) string {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err == nil && int64(st.Type) == tmpfsMagic {
		return "tmpfs"
	}
	return "disk"
}
