package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReportJSON(t *testing.T) {
	r := report{figures: figures{
		Rows: 1000, Bytes: 4_000_000, Seconds: 2, Puts: 20, CloseS: 0.5, ReopenS: 0.25, VerifiedRows: 1000, CPUS: 1.5, PeakRSSMB: 99,
		AckMS: ackMillis{1, 2, 3, 4}, Options: map[string]any{"store": "mem://"},
	}}
	r.derive()
	path := filepath.Join(t.TempDir(), "out.json")
	out, err := createJSON(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writeJSON(out, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ack_ms", "bytes", "close_s", "cpu_s", "mb_per_s", "options", "peak_rss_mb", "puts", "puts_per_s", "reopen_s",
		"rows", "rows_per_s", "seconds", "usd_per_month", "verified_rows",
	}
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Errorf("keys are %q, want %q", keys, want)
	}
	if keys := slices.Sorted(maps.Keys(got["ack_ms"].(map[string]any))); !slices.Equal(keys, []string{"max", "p50", "p95", "p99"}) {
		t.Errorf("keys of ack_ms are %q", keys)
	}
	// 10 PUTs a second for 30 days at half a cent a thousand.
	for key, v := range map[string]float64{"rows_per_s": 500, "mb_per_s": 2, "puts_per_s": 10, "usd_per_month": 129.6} {
		if math.Abs(got[key].(float64)-v) > 1e-9 {
			t.Errorf("%s is %v, want %v", key, got[key], v)
		}
	}
}

func TestReportText(t *testing.T) {
	r := report{figures: figures{
		Rows: 1_234_567, Bytes: 4_000_000, Seconds: 2, Puts: 2000, CPUS: 0.5, VerifiedRows: 1_234_567, ReopenS: 0.125,
		AckMS: ackMillis{0.5, 12.34, 345.6, 7890},
	}, Batches: 77, ArrowBytes: 6_000_000}
	r.derive()
	var out bytes.Buffer
	r.printIngest(&out)
	r.printReopen(&out)
	for _, want := range []string{
		"1,234,567 in 77 batches, 2.000 s: 617,284 rows/s", "4.0 MB: 2.0 MB/s", "6.0 MB: 3.0 MB/s",
		"p50 0.500 ms, p95 12.3 ms, p99 346 ms, max 7.89 s", "2,000, 1000.0/s: $0.01 for this run, $12,960 a month",
		"0.500 s of this process: 2,469,134 rows per CPU second", "0.125 s, replay included", "verified     1,234,567 rows",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	var r report
	r.derive()
	var out bytes.Buffer
	r.printIngest(&out)
	if s := out.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Errorf("the report of a run without rows:\n%s", s)
	}
	if _, err := json.Marshal(r.figures); err != nil {
		t.Error(err)
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := group(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	for d, want := range map[float64]string{0: "$0.00", 0.000045: "$0.000045", 0.00123: "$0.0012", 1.234: "$1.23", 1234.5: "$1,235"} {
		if got := dollars(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l latencies
	if got := l.values(); got != (ackMillis{}) {
		t.Errorf("nothing recorded: %v", got)
	}
	for i := range 1000 {
		l.record(millisecond(i + 1))
	}
	got := l.values()
	near := func(v, want float64) bool { return math.Abs(v-want) <= want/500 }
	if !near(got.P50, 500) || !near(got.P95, 950) || !near(got.P99, 990) || !near(got.Max, 1000) {
		t.Errorf("got %+v", got)
	}
	l.record(-1)      // a clock that goes back
	l.record(1 << 62) // beyond an hour
	if l.values().Max < 3.5e6 {
		t.Errorf("an hour is %v ms", l.values().Max)
	}
}
