package main

import (
	"context"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/txonce/txonce/integration/internal/lives"
	"github.com/txonce/txonce/internal/devpg"
)

// postgres is a database server that can be killed.
type postgres interface {
	URL() string // the same after Kill and Start
	Version() string
	Source() string
	Kill(ctx context.Context) error  // all of it, by SIGKILL
	Start(ctx context.Context) error // again, on its data; returns when it answers
	Stop() error
}

// startPostgres starts a server whose acknowledged commits outlive its processes. They need no fsync for that, since the machine
// stays up; but a process can be killed in the middle of writing a page.
func startPostgres(ctx context.Context) (postgres, error) {
	s, err := devpg.StartSupervised(ctx, &devpg.Config{Parameters: map[string]string{
		"synchronous_commit": "on", "full_page_writes": "on", "max_connections": "200",
	}})
	if err != nil {
		return nil, err
	}
	return &supervised{Server: s}, nil
}

// supervised is a server that starts again by itself.
type supervised struct{ *devpg.Server }

const sqlProcesses = `
select pid from pg_stat_activity where pid <> pg_backend_pid()
union all
select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`

// Kill kills all processes of the server but the one that tells of them, which ends when it misses the first one.
func (s *supervised) Kill(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return fmt.Errorf("chaos: to kill the database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, _ := conn.Query(ctx, sqlProcesses)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return fmt.Errorf("chaos: to kill the database: %w", err)
	}
	first := pids[len(pids)-1]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil { // before the others, or it would start anew by itself
		return fmt.Errorf("chaos: to kill the database: %w", err)
	}
	for _, pid := range pids[:len(pids)-1] {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
	return nil
}

// Start waits until the server answers.
func (s *supervised) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*lives.Patience, fmt.Errorf("chaos: the database did not come back within %v", 2*lives.Patience))
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		if lives.Pause(ctx, lives.LookAgain) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}
