package main

import "syscall"

// freeSpace returns the bytes that are free on the disk of dir.
func freeSpace(dir string) (bytes int64, ok bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true // the widths of the fields differ between architectures
}
