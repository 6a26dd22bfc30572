package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// scrape returns the samples of the endpoint by their series.
func scrape(url string) (map[string]float64, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	samples := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok && !strings.HasPrefix(line, "#") {
			if samples[series+"}"], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return samples, nil
}

// TestScrape runs the service and finds its metrics as Prometheus names them.
func TestScrape(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	shard := uuid.NewString()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, "file://"+t.TempDir(), shard, addr, time.Millisecond, slog.New(slog.DiscardHandler))
	}()

	const entries = "memwal_wal_entries_total"
	var samples map[string]float64
	for deadline := time.Now().Add(30 * time.Second); samples[entries+`{memwal_shard="`+shard+`"}`] < 2; time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("the service ended: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was appended: %v", samples)
		}
		if samples, err = scrape("http://" + addr + "/metrics"); err != nil {
			t.Log(err) // it does not listen yet
		}
	}
	for _, want := range []string{
		`memwal_epoch{S}`, `memwal_rows_accepted{S}`, `memwal_rows_durable{S}`, `memwal_log_size_bytes{S}`,
		`memwal_wal_rows_total{S}`, `memwal_wal_written_bytes_total{S}`, `memwal_wal_append_time_seconds_total{S}`,
		`memwal_wal_appends_total{memwal_append_reason="time",S}`,
		`memwal_wal_append_duration_seconds_count{memwal_append_outcome="landed",memwal_append_reason="time",S}`,
		`memwal_wal_append_duration_seconds_bucket{memwal_append_outcome="landed",memwal_append_reason="time",S,le="+Inf"}`,
		`memwal_wal_entry_size_bytes_sum{memwal_append_outcome="landed",memwal_append_reason="time",S}`,
		`memwal_store_requests_total{S,objstore_operation="put-if-absent"}`,
		`memwal_store_written_bytes_total{S}`, `memwal_memory_resident_bytes{S}`,
	} {
		series := strings.ReplaceAll(want, "S", `memwal_shard="`+shard+`"`)
		if samples[series] <= 0 {
			t.Errorf("%s is %v", series, samples[series])
		}
	}
	for _, zero := range []string{`memwal_wal_reissued_total{S}`, `memwal_open_replay_entries{S}`} {
		series := strings.ReplaceAll(zero, "S", `memwal_shard="`+shard+`"`)
		if v, ok := samples[series]; !ok || v != 0 {
			t.Errorf("%s is %v (there: %v), want 0", series, v, ok)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the service ended with %v", err)
	}
	checkAlerts(t, samples)
}

// checkAlerts finds each metric that the alerts in the package's comment name.
func checkAlerts(t *testing.T, samples map[string]float64) {
	t.Helper()
	doc := packageComment(t)
	names := map[string]bool{}
	for series := range samples {
		name, _, _ := strings.Cut(series, "{")
		names[name] = true
	}
	named := 0
	for _, name := range regexp.MustCompile(`memwal_[a-z_]+[a-z]`).FindAllString(doc, -1) {
		if name == "memwal_wal" || name == "memwal_append_outcome" || name == "memwal_shard" { // grep's argument, and labels
			continue
		}
		named++
		if !names[name] {
			t.Errorf("the alerts name %s, which is not exported", name)
		}
	}
	if named < 8 {
		t.Errorf("only %d metrics are named in the package's comment", named)
	}
}

func packageComment(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(src), "\npackage main")
	return doc
}
