//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"net"
	"testing"
)

// silentURL leads to a server that takes connections and does not answer.
// connected is closed at the first one.
func silentURL(t *testing.T) (url string, connected <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done, first := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		close(first)
		var b [1]byte
		for err == nil { // until the client gives up
			_, err = conn.Read(b[:])
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable", first
}
