package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Samples come every 100 ms, half as often each time there are too many, and not
// while the clock stands still.
func TestSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &ingest{recent: new(latencies)}
		var mu sync.Mutex
		var g gauges
		s := startSampler(in, func() gauges {
			mu.Lock()
			defer mu.Unlock()
			return g
		})
		in.clock.start()
		time.Sleep(sampleEvery / 2) // between the ticks
		for i := range 1500 {       // 150 s
			in.rows.Add(10)
			mu.Lock()
			g.bytes, g.puts, g.inFlight = g.bytes+100, g.puts+1, int64(i%2*4)
			mu.Unlock()
			in.recent.record(millisecond(i%100 + 1))
			time.Sleep(sampleEvery)
			if i == 300 {
				in.clock.stop()
				time.Sleep(time.Hour)
				in.clock.start()
			}
		}
		in.clock.stop()
		mu.Lock()
		g.puts = 2000
		mu.Unlock()
		list := s.stop()
		if n := len(list); n < maxSamples/2 || n >= maxSamples {
			t.Fatalf("%d samples", n)
		}
		var acks int64
		for i, x := range list {
			acks += x.acks
			gap := x.at
			if i > 0 {
				gap -= list[i-1].at
			}
			if i < len(list)-1 && (gap < 3*sampleEvery || gap > 5*sampleEvery) { // less than 4 at the pause
				t.Errorf("sample %d comes %v after the one before", i, gap)
			}
			if i < len(list)-1 && math.Abs(x.inFlight-2) > 1 {
				t.Errorf("sample %d: %v in flight, want 2", i, x.inFlight)
			}
			if x.p99 < x.p50 || x.p50 <= 0 && x.acks > 0 {
				t.Errorf("sample %d: p50 %v, p99 %v", i, x.p50, x.p99)
			}
		}
		last := list[len(list)-1]
		if acks != 1500 || last.rows != 15000 || last.bytes != 150_000 || last.puts != 2000 || last.at != in.clock.elapsed() {
			t.Errorf("%d acks, the last sample is %+v", acks, last)
		}
	})
}

func TestMergeSamples(t *testing.T) {
	got := merge(
		sample{at: 1, rows: 10, bytes: 100, puts: 1, acks: 1, p50: 4, p99: 9, resident: 5, rss: 70, heap: 8, inFlight: 1},
		sample{at: 2, rows: 20, bytes: 200, puts: 2, acks: 3, p50: 8, p99: 8, resident: 6, rss: 60, heap: 7, inFlight: 2})
	want := sample{at: 2, rows: 20, bytes: 200, puts: 2, acks: 4, p50: 7, p99: 9, resident: 6, rss: 70, heap: 8, inFlight: 1.5}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if m := merge(sample{}, sample{}); m != (sample{}) {
		t.Errorf("of nothing: %+v", m)
	}
}

// The series is the last member of the object, one array for each quantity, all
// as long.
func TestSeriesInJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	out, err := createJSON(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := report{figures: figures{Rows: 7, Options: map[string]any{"store": "mem://"}}, Samples: []sample{
		{at: time.Second, rows: 5, bytes: 500, puts: 1000, acks: 1, p50: 1.5, p99: 2.25, resident: 1, rss: 2, heap: 3, inFlight: 0.5},
		{at: 1500 * time.Millisecond, rows: 7, bytes: 700, puts: 2000},
	}}
	if err := r.writeJSON(out, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rows    int64
		Options map[string]string
		Series  map[string][]float64
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%v:\n%s", err, data)
	}
	want := map[string][]float64{
		"t_s": {1, 1.5}, "rows": {5, 7}, "bytes": {500, 700}, "puts": {1000, 2000}, "usd": {0.005, 0.01}, "acks": {1, 0},
		"ack_p50_ms": {1.5, 0}, "ack_p99_ms": {2.25, 0}, "in_flight": {0.5, 0},
		"resident_bytes": {1, 0}, "rss_bytes": {2, 0}, "heap_bytes": {3, 0},
	}
	if len(got.Series) != len(want) || got.Rows != 7 || got.Options["store"] != "mem://" {
		t.Errorf("got %+v", got)
	}
	for name, vals := range want {
		if !slices.Equal(got.Series[name], vals) {
			t.Errorf("%s is %v, want %v", name, got.Series[name], vals)
		}
	}
	if lines := strings.Count(string(data), "\n"); lines > 60 {
		t.Errorf("%d lines", lines)
	}
}

func TestBenchSeries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	code := command(t.Context(), strings.Fields("-store mem:// -rows 1000 -batch 50 -rate 2000 -json "+path), &strings.Builder{}, &strings.Builder{})
	data, err := os.ReadFile(path)
	if err != nil || code != 0 {
		t.Fatal(code, err)
	}
	var f struct {
		figures
		Series map[string][]float64
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	last := func(name string) float64 { return f.Series[name][len(f.Series[name])-1] }
	if n := len(f.Series["t_s"]); n < 3 || n > 10 || last("rows") != 1000 || last("puts") != float64(f.Puts) || last("bytes") != float64(f.Bytes) ||
		last("resident_bytes") <= 0 || last("heap_bytes") <= 0 || math.Abs(last("t_s")-f.Seconds) > 0.002 {
		t.Errorf("figures %+v, series %v", f.figures, f.Series)
	}
	if runtime.GOOS == "linux" && (last("rss_bytes") < 1e6 || last("rss_bytes") > float64(peakMemory())*1.01) {
		t.Errorf("resident %v, peak %d", last("rss_bytes"), peakMemory())
	}
}
