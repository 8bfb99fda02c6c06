package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"
)

// serveUI is River UI on the queue of the reports. Its client has no workers: it looks, and it cancels, retries and deletes
// what a person clicks. It asks nobody who they are, so it is for this machine only, and not for pages of other sites.
func serveUI(ctx context.Context, o options, db *database, log *slog.Logger, ready func(string)) error {
	client, err := river.NewClient(riverpgxv5.New(db.Pool), &river.Config{Schema: db.names.river, Logger: log})
	if err != nil {
		return err
	}
	ui, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(client, nil), Logger: log})
	if err != nil {
		return err
	}
	if err := ui.Start(ctx); err != nil {
		return err
	}
	return listen(ctx, o.port, http.NewCrossOriginProtection().Handler(ui), func(address string) { ready("http://" + address + "/") })
}
