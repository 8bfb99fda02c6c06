package lives

import (
	"context"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/migrations"
)

// Prepare opens a fresh database, migrates it and makes the tables of the run.
func Prepare(ctx context.Context, p Place, sqlTables string) (*pgxpool.Pool, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	err = migrations.Up(ctx, pool, nil)
	if err == nil {
		_, err = pool.Exec(ctx, sqlTables)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// Wired returns a pool for a process that connects when it is used: its connections go through wire, its sessions have the name.
func Wired(ctx context.Context, p Place, applicationName string, most int32, wire func(net.Conn) net.Conn) (*pgxpool.Pool, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = most
	cfg.ConnConfig.RuntimeParams["application_name"] = applicationName
	cfg.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return wire(conn), nil
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}
