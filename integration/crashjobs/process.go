package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/integration/internal/lives"
)

// process is what the program is when it is one of those that are killed.
type process struct {
	a              assignment
	reaper         *reaper
	left           chan struct{} // closed when it is to leave
	stdout, stderr io.Writer
	pool           *pgxpool.Pool
}

// live is the main function of a process.
func live(stdin io.Reader, stdout, stderr io.Writer) int {
	p := &process{stdout: stdout, stderr: stderr, left: make(chan struct{})}
	made := make(chan struct{})
	err := lives.Assigned(stdin, &p.a, func(line string) {
		if line == leave {
			close(p.left)
			return
		}
		<-made
		p.reaper.hear(line)
	})
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "no assignment:", err)
		return lives.ExitBad
	}
	p.reaper = newReaper(p.a, lives.Marks())
	close(made)
	if err := p.live(context.Background()); err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return lives.ExitBad
	}
	return lives.ExitGood
}

func (p *process) live(ctx context.Context) (err error) {
	p.pool, err = lives.Wired(ctx, p.a.Place, applicationName, mostConns, func(conn net.Conn) net.Conn { return &wire{Conn: conn, reaper: p.reaper} })
	if err != nil {
		return err
	}
	defer p.pool.Close()
	switch {
	case p.a.Role == server:
		return p.serve(ctx)
	case p.a.Role == patient:
		return p.recover(ctx)
	case p.a.Plant == completeTx:
		return p.workPlainly(ctx)
	}
	return p.work(ctx)
}

// logger writes down nothing: what the library says in a storm of kills is no news.
func logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
