// Command ingest is a small ingest service: newline-delimited JSON over HTTP in,
// Arrow batches to memwal, rows back by key or by a search in their messages.
//
//	go run ./examples/ingest -store file:///tmp/events
//	curl -s --data-binary $'{"id":1,"kind":"login","message":"login failed"}\n' http://127.0.0.1:8080/events
//	curl -s http://127.0.0.1:8080/events/1
//	curl -s -G http://127.0.0.1:8080/events --data-urlencode 'q=failed -test' --data-urlencode 'where=kind == "login"'
//
// A search takes q, and where, limit and offset.
//
// A POST is answered once its rows are durable. SIGINT or SIGTERM stops it
// gracefully: requests under way are finished, then the writer is closed. When
// the writer fails, because another process has taken the shard over or the store
// is lost, the program ends with exit code 1, for a supervisor to decide.
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
	"strings"
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
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "ingest: unexpected argument %q: every argument is a flag\n", flag.Arg(0))
		os.Exit(2)
	}

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
	if strings.HasPrefix(url, "mem:") {
		logger.Warn("a mem:// store ends with this process, and every row with it", "store", url)
	}
	// Before the shard is opened, which ends its present writer: a start that
	// cannot serve must leave that one alone.
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	defer l.Close()
	o := options()
	o.Logger = logger
	w, err := memwal.Open(ctx, store, id, eventSchema, o)
	if err != nil {
		return err
	}
	// The writer is closed after the server: what requests have put is made
	// durable, within a bound.
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		cerr := w.Close(closing)
		if !errors.Is(err, memwal.ErrPoisoned) { // else it says the same again
			err = errors.Join(err, cerr)
		}
	}()

	return serve(ctx, l, w, logger)
}

// serve answers requests until ctx ends or w fails.
func serve(ctx context.Context, l net.Listener, w *memwal.Writer, logger *slog.Logger) error {
	server := &http.Server{Handler: newService(w), ReadHeaderTimeout: 10 * time.Second}
	logger.Info("listening", "address", l.Addr().String(), "rows", w.Stats().Visible)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	var failure error
	select {
	case err := <-served:
		return err
	case <-w.Done():
		failure = w.Err()
	case <-ctx.Done():
	}
	logger.Info("stopping")
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(failure, server.Shutdown(grace))
}
