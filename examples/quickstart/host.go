package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// host serves HTTP on an address of this machine.
type host struct {
	server *http.Server
	url    string
	ended  chan struct{}
}

// listen starts to serve the handler at a path.
func listen(ctx context.Context, address, path string, handler http.Handler) (*host, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	h := &host{
		server: &http.Server{
			Handler:           mux,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          log.New(io.Discard, "", 0),
		},
		url:   "http://" + listener.Addr().String() + path,
		ended: make(chan struct{}),
	}
	go func() {
		defer close(h.ended)
		_ = h.server.Serve(listener) // returns when closed
	}()
	return h, nil
}

// closeTimeout is longer than any call of the demo takes.
const closeTimeout = 2 * time.Second

// close waits a little for the requests that run, then ends their connections.
func (h *host) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if h.server.Shutdown(ctx) != nil {
		_ = h.server.Close()
	}
	<-h.ended
}
