// Command ingest is a small ingest service: newline-delimited JSON over HTTP in,
// Arrow batches to memwal, rows back by key.
//
//	go run ./examples/ingest -store file:///tmp/events
//	curl -s --data-binary $'{"id":1,"kind":"login","at":"2026-01-02T03:04:05Z"}\n' http://127.0.0.1:8080/events
//	curl -s http://127.0.0.1:8080/events/1
//
// A POST is answered once its rows are durable. SIGINT or SIGTERM stops it
// gracefully: requests under way are finished, then the writer is closed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

func main() {
	url := flag.String("store", "mem://", "object store: mem://, file:///dir, s3://bucket/prefix?…")
	addr := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	shard := flag.String("shard", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "UUID of the shard")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, *url, *shard, *addr, logger); err != nil {
		logger.Error("ingest", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or the writer fails.
func run(ctx context.Context, url, shard, addr string, logger *slog.Logger) (err error) {
	id, err := uuid.Parse(shard)
	if err != nil {
		return fmt.Errorf("-shard: %w", err)
	}
	store, err := objstore.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	w, err := memwal.Open(ctx, store, id, eventSchema, &memwal.Options{PrimaryKey: []string{"id"}, Logger: logger})
	if err != nil {
		return err
	}
	// The writer is closed after the server: what requests have put is made
	// durable, within a bound.
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = errors.Join(err, w.Close(closing))
	}()

	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: newService(w), ReadHeaderTimeout: 10 * time.Second}
	logger.Info("listening", "address", l.Addr().String(), "rows", w.Stats().Visible)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	logger.Info("stopping")
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}
