//go:build !(linux || darwin || freebsd || netbsd || dragonfly)

package main

// inForeground is not known here; signals are always passed on.
func inForeground() bool { return false }
