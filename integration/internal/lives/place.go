package lives

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/internal/devpg"
)

// Place is a database: one on the server of a URL, or the URL's own.
type Place struct {
	URL      string
	Database string
}

// Config returns the configuration of a pool on it.
func (p Place) Config() (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(p.URL)
	if err == nil && p.Database != "" {
		cfg.ConnConfig.Database = p.Database
	}
	return cfg, err
}

// OnServer finds or starts a server and calls run with a database of its own on it, which it drops. The program's name begins
// the line that says so.
func OnServer(ctx context.Context, program string, seed uint64, stderr io.Writer, run func(Place) error) (err error) {
	server, err := devpg.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	_, _ = fmt.Fprintf(stderr, "%s: seed %d, PostgreSQL %s: %s\n", program, seed, server.Version(), server.Source())

	name, drop, err := createDatabase(ctx, server.URL(), strings.ReplaceAll(program, "-", "_"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	return run(Place{URL: server.URL(), Database: name})
}

// createDatabase makes a database on the server and returns its name and what drops it.
func createDatabase(ctx context.Context, serverURL, program string) (name string, drop func() error, err error) {
	name = "txonce_" + program + "_" + strings.ToLower(rand.Text()[:12])
	if err := administrate(ctx, serverURL, "create database "+name); err != nil {
		return "", nil, err
	}
	return name, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
		defer cancel()
		return administrate(ctx, serverURL, "drop database "+name+" with (force)")
	}, nil
}

func administrate(ctx context.Context, serverURL, sql string) (err error) {
	cfg, err := Place{URL: serverURL}.Config()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
