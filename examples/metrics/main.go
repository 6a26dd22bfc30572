// Command metrics is a service with a Prometheus scrape endpoint: it writes the
// readings of made-up sensors to memwal and serves memwal's metrics.
//
//	cd examples/metrics && go run .
//	curl -s http://127.0.0.1:9464/metrics | grep memwal_wal
//
// It is a Go module of its own, so that the SDK of OpenTelemetry and the client
// of Prometheus are no dependencies of memwal: its core knows only the API.
// The wiring is three lines: an exporter, a meter provider that reads through
// it, and Options.MeterProvider.
//
// # Alerts
//
// What to be woken for, in PromQL. The first says that rows wait and nothing
// becomes durable: the store is gone, or the writer has stopped (then its log
// says why, and Writer.Done was closed).
//
//	memwal_rows_accepted - memwal_rows_durable > 0 and rate(memwal_wal_entries_total[2m]) == 0
//
// No writer runs. The metrics of one go with it, when it is closed.
//
//	absent(memwal_epoch{memwal_shard="6ba7b810-9dad-11d1-80b4-00c04fd430c8"})
//
// Two processes fight for a shard: each open is an epoch more.
//
//	changes(memwal_epoch[15m]) > 3
//
// Memory is nearly full, and puts are going to wait: here MaxResidentBytes is
// the default of 4 GiB.
//
//	memwal_memory_resident_bytes > 0.9 * 4 * 1024^3
//
// The store is slow, or throttles.
//
//	histogram_quantile(0.99, sum by (le) (rate(memwal_wal_append_duration_seconds_bucket[5m]))) > 1
//	rate(memwal_wal_append_duration_seconds_count{memwal_append_outcome="failed"}[5m]) > 0
//
// A process that was fenced still writes.
//
//	increase(memwal_wal_reissued_total[15m]) > 3
//
// What it costs, in dollars a month at half a cent for a thousand puts and lists:
//
//	sum(rate(memwal_store_requests_total{objstore_operation=~"put.*|list"}[1h])) * 86400 * 30 * 0.005 / 1000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// readings is what a sensor tells.
var readings = arrow.NewSchema([]arrow.Field{
	{Name: "sensor", Type: arrow.PrimitiveTypes.Int64},
	{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms},
	{Name: "celsius", Type: arrow.PrimitiveTypes.Float64},
}, nil)

func main() {
	url := flag.String("store", "mem://", "object store: mem://, file:///dir, s3://bucket/prefix?…")
	addr := flag.String("listen", "127.0.0.1:9464", "address of /metrics")
	shard := flag.String("shard", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "UUID of the shard")
	every := flag.Duration("every", 20*time.Millisecond, "time between two batches of 100 readings")
	flag.Parse()
	if flag.NArg() > 0 || *every <= 0 {
		fmt.Fprintln(os.Stderr, "metrics: every argument is a flag, and -every is positive")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, *url, *shard, *addr, *every, logger); err != nil {
		logger.Error("metrics", "error", err)
		os.Exit(1)
	}
}

// run ingests and serves until ctx ends, the server fails, or the writer does.
func run(ctx context.Context, url, shard, addr string, every time.Duration, logger *slog.Logger) (err error) {
	id, err := uuid.Parse(shard)
	if err != nil {
		return fmt.Errorf("-shard: %w", err)
	}
	store, err := objstore.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	l, err := net.Listen("tcp", addr) // before the shard is opened, which ends its present writer
	if err != nil {
		return err
	}
	defer l.Close()

	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	defer func() { err = errors.Join(err, meters.Shutdown(context.WithoutCancel(ctx))) }()

	w, err := memwal.Open(ctx, store, id, readings, &memwal.Options{MeterProvider: meters, Logger: logger})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		cerr := w.Close(closing)
		if !errors.Is(err, memwal.ErrPoisoned) { // else it says the same again
			err = errors.Join(err, cerr)
		}
	}()

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	logger.Info("listening", "metrics", "http://"+l.Addr().String()+"/metrics")
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer server.Close()

	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-w.Done():
			return w.Err()
		case <-tick.C:
			if err := ingest(ctx, w); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// ingest puts one batch and does not wait until it is durable: the log catches
// up in the background, and the metrics show how far it has come.
func ingest(ctx context.Context, w *memwal.Writer) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, readings)
	defer b.Release()
	now := arrow.Timestamp(time.Now().UnixMilli())
	for sensor := range int64(100) {
		b.Field(0).(*array.Int64Builder).Append(sensor)
		b.Field(1).(*array.TimestampBuilder).Append(now)
		b.Field(2).(*array.Float64Builder).Append(20 + 5*rand.NormFloat64())
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	_, err := w.PutAsync(ctx, rec)
	return err
}
