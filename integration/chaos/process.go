package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// applicationName is how the sessions of the processes are known.
const applicationName = "txonce-chaos"

// mostConns bounds the connections of a process.
const mostConns = 8

// process is what the program is when it is one of those that are killed.
type process struct {
	a    assignment
	left chan struct{} // closed when it is to leave
	pool *pgxpool.Pool
}

// live is the main function of a process.
func live(stdin io.Reader, stderr io.Writer) int {
	p := &process{left: make(chan struct{})}
	goAway := sync.OnceFunc(func() { close(p.left) })
	err := lives.Assigned(stdin, &p.a, func(line string) {
		if line == leave {
			goAway()
		}
	})
	if err == nil {
		err = p.live(context.Background())
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return lives.ExitBad
	}
	return lives.ExitGood
}

func (p *process) live(ctx context.Context) (err error) {
	p.pool, err = lives.Wired(ctx, p.a.Place, applicationName, mostConns, func(conn net.Conn) net.Conn { return conn })
	if err != nil {
		return err
	}
	defer p.pool.Close()
	switch {
	case p.a.Role == server:
		return p.serve(ctx)
	case p.a.Role == worker:
		return p.work(ctx)
	case p.a.Plant == deleteFirst:
		return p.relayPlainly(ctx)
	}
	return p.relay(ctx)
}

// logger writes down nothing: what the library says in a storm of kills is no news.
func logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
