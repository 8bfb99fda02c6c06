package devpg

import (
	"fmt"
	"net"
)

// freePort returns a port of 127.0.0.1 that is free at this moment. Somebody
// else may take it before the server does, hence the tries of startOwn.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("not a TCP address: %s", l.Addr())
	}
	return addr.Port, nil
}
