// Webhooks shows one store behind two doors: an endpoint that clients call with an Idempotency-Key, and a webhook that a
// payment provider calls. Both may call as often as they like.
//
//	go run ./examples/webhooks
//
// The part to copy is shop.go. README.md has the requests to try.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/txonce/txonce/internal/devpg"
)

// demoSecret is the one in README.md.
const demoSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, log, cmp.Or(os.Getenv("ADDRESS"), "127.0.0.1:8080")); err != nil {
		log.Error("webhooks: ended", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, log *slog.Logger, address string) (err error) {
	pg, err := devpg.Start(ctx, &devpg.Config{Logger: log}) // DATABASE_URL, or a throwaway Postgres
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	shop, err := openShop(ctx, pg.URL(), log)
	if err != nil {
		return err
	}
	defer shop.pool.Close()
	handler, err := shop.handler(cmp.Or(os.Getenv("WEBHOOK_SECRET"), demoSecret))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sweeping.Go(func() { _ = shop.sweep(ctx) })
	_, _ = fmt.Fprintf(os.Stderr, "PostgreSQL %s: %s.\nhttp://%s; Ctrl-C ends it.\n", pg.Version(), pg.Source(), listener.Addr())
	return serve(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}, listener)
}

// serve ends when ctx does, behind the requests that are running.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := server.Shutdown(ctx)
	<-ended
	return err
}
