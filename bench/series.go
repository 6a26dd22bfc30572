package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/memwal/memwal-go/memwal"
)

const (
	sampleEvery = 100 * time.Millisecond
	// maxSamples bounds the series: at so many, neighbours are merged, and from
	// then on samples come half as often.
	maxSamples = 600
)

// sample is the state of an ingest at one moment, and what happened since the
// sample before.
type sample struct {
	at time.Duration // on the ingest's clock

	rows, bytes, puts int64 // so far

	acks     int64   // since the sample before
	p50, p99 float64 // their latency in milliseconds; 0 without acks

	resident, rss, heap int64   // bytes
	inFlight            float64 // entries being encoded and put, the mean since the sample before
}

// merge joins two samples in a row, a before b. The percentiles are not those of
// both together, which nobody knows any more: the median is the mean of both,
// weighted, and the 99th percentile the higher one.
func merge(a, b sample) sample {
	m := b
	if m.acks = a.acks + b.acks; m.acks > 0 {
		m.p50 = (a.p50*float64(a.acks) + b.p50*float64(b.acks)) / float64(m.acks)
	}
	m.p99 = max(a.p99, b.p99)
	m.inFlight = (a.inFlight + b.inFlight) / 2
	m.resident, m.rss, m.heap = max(a.resident, b.resident), max(a.rss, b.rss), max(a.heap, b.heap)
	return m
}

// gauges are what a sampler asks others for.
type gauges struct {
	bytes, puts        int64 // so far
	resident, inFlight int64
}

// sampler observes an ingest while it runs.
type sampler struct {
	in    *ingest
	gauge func() gauges

	list   []sample
	stride int // ticks of a sample
	ticks  int // since the last one
	flying float64

	quit chan struct{}
	wg   sync.WaitGroup
}

// startSampler samples until stop.
func startSampler(in *ingest, gauge func() gauges) *sampler {
	s := &sampler{in: in, gauge: gauge, stride: 1, quit: make(chan struct{})}
	s.wg.Go(func() {
		t := time.NewTicker(sampleEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.tick()
			case <-s.quit:
				return
			}
		}
	})
	return s
}

// stop takes the last sample and returns all.
func (s *sampler) stop() []sample {
	close(s.quit)
	s.wg.Wait()
	s.ticks = max(s.ticks, s.stride-1) // it is due
	s.tick()
	return s.list
}

// tick looks, and takes a sample when one is due. While the clock of the ingest
// stands still there is nothing to see.
func (s *sampler) tick() {
	at := s.in.clock.elapsed()
	if n := len(s.list); n > 0 && s.list[n-1].at == at {
		return
	}
	g := s.gauge()
	s.flying += float64(g.inFlight)
	if s.ticks++; s.ticks < s.stride {
		return
	}
	lat, acks := s.in.recent.take()
	s.list = append(s.list, sample{
		at: at, rows: s.in.rows.Load(), bytes: g.bytes, puts: g.puts, acks: acks, p50: lat.P50, p99: lat.P99,
		resident: g.resident, rss: residentMemory(), heap: heapBytes(), inFlight: s.flying / float64(s.ticks),
	})
	s.ticks, s.flying = 0, 0
	if len(s.list) == maxSamples {
		half := s.list[:0]
		for i := 0; i+1 < maxSamples; i += 2 {
			half = append(half, merge(s.list[i], s.list[i+1]))
		}
		s.list = half
		s.stride *= 2
	}
}

// heapBytes is the size of the objects on the heap, dead ones that were not
// swept yet included.
func heapBytes() int64 {
	v := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(v)
	if v[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(v[0].Value.Uint64())
}

// gaugesOf asks w and the counters of its store, from which what was there before
// is taken off.
func (b *bench) gaugesOf(w *memwal.Writer) func() gauges {
	before := b.store.counters.Snapshot()
	return func() gauges {
		now, s := b.store.counters.Snapshot(), w.Stats()
		return gauges{
			bytes: int64(now.BytesWritten - before.BytesWritten), puts: int64(now.Puts() - before.Puts()),
			resident: s.ResidentBytes, inFlight: s.WAL.InFlight,
		}
	}
}

// column is one quantity of all samples.
type column struct {
	name   string
	values []float64
}

// columns turns samples around.
func columns(list []sample) []column {
	of := func(name string, digits int, f func(*sample) float64) column {
		unit := math.Pow10(digits)
		c := column{name, make([]float64, len(list))}
		for i := range list {
			c.values[i] = math.Round(f(&list[i])*unit) / unit
		}
		return c
	}
	return []column{
		of("t_s", 3, func(s *sample) float64 { return s.at.Seconds() }),
		of("rows", 0, func(s *sample) float64 { return float64(s.rows) }),
		of("bytes", 0, func(s *sample) float64 { return float64(s.bytes) }),
		of("puts", 0, func(s *sample) float64 { return float64(s.puts) }),
		of("usd", 9, func(s *sample) float64 { return float64(s.puts) * dollarsPerPut }),
		of("acks", 0, func(s *sample) float64 { return float64(s.acks) }),
		of("ack_p50_ms", 3, func(s *sample) float64 { return s.p50 }),
		of("ack_p99_ms", 3, func(s *sample) float64 { return s.p99 }),
		of("in_flight", 3, func(s *sample) float64 { return s.inFlight }),
		of("resident_bytes", 0, func(s *sample) float64 { return float64(s.resident) }),
		of("rss_bytes", 0, func(s *sample) float64 { return float64(s.rss) }),
		of("heap_bytes", 0, func(s *sample) float64 { return float64(s.heap) }),
	}
}

// appendSeries adds the series to the JSON object in data, one quantity a line,
// which json.MarshalIndent would not do.
func appendSeries(data []byte, list []sample) ([]byte, error) {
	if len(list) == 0 {
		return data, nil
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(data, []byte("\n}")))
	b.WriteString(",\n  \"series\": {\n")
	cols := columns(list)
	for i, c := range cols {
		vals, err := json.Marshal(c.values)
		if err != nil {
			return nil, err
		}
		comma := ","
		if i == len(cols)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "    %q: %s%s\n", c.name, vals, comma)
	}
	b.WriteString("  }\n}")
	return b.Bytes(), nil
}
