package main

import (
	"context"

	"github.com/txonce/txonce/integration/internal/servers"
)

// startPostgres starts a server of the newest version at hand, with room for the connections of all processes.
func startPostgres(ctx context.Context) (*servers.Server, error) {
	return servers.Start(ctx, &servers.Config{Parameters: map[string]string{"max_connections": "200"}})
}
