package main

import (
	"fmt"
	"math"
	"strconv"
)

// measure is one figure of a run, as tables show it.
type measure struct {
	name   string
	unit   string // "" for counts and ratios
	better int    // 1: more is better, -1: less is, 0: it says nothing by itself
	value  float64
}

// measures lists the figures of a run that are there: what was not measured, or
// is zero, is left out.
func (f *figures) measures() []measure {
	list := []measure{
		{"rows", "", 0, float64(f.Rows)},
		{"time", "s", 0, f.Seconds},
		{"ingest", "rows/s", 1, f.RowsPerS},
		{"written", "MB/s", 1, f.MBPerS},
		{"written, in all", "MB", 0, float64(f.Bytes) / 1e6},
		{"written for a row", "bytes", -1, per(float64(f.Bytes), float64(f.Rows))},
		{"baseline", "MB/s", 0, f.BaselineMBPerS},
		{"baseline ratio", "", 1, f.BaselineRatio},
		{"bare put p50", "ms", 0, f.BaselinePutMS.P50},
		{"bare put p99", "ms", 0, f.BaselinePutMS.P99},
		{"ack latency p50", "ms", -1, f.AckMS.P50},
		{"ack latency p95", "ms", -1, f.AckMS.P95},
		{"ack latency p99", "ms", -1, f.AckMS.P99},
		{"ack latency max", "ms", -1, f.AckMS.Max},
	}
	if f.Read != nil {
		for _, k := range f.Read.named() {
			list = append(list,
				measure{k.name + "s", "/s", 1, f.perReadSecond(k.Count)},
				measure{k.name + " p50", "µs", -1, k.P50}, measure{k.name + " p95", "µs", -1, k.P95},
				measure{k.name + " p99", "µs", -1, k.P99}, measure{k.name + " max", "µs", -1, k.Max})
		}
	}
	if f.Query != nil {
		list = append(list, measure{"queries", "/s", 1, f.Query.PerS})
		for _, k := range f.Query.named() {
			name := "query, " + k.name
			list = append(list,
				measure{name + " p50", "µs", -1, k.P50}, measure{name + " p90", "µs", -1, k.P90},
				measure{name + " p99", "µs", -1, k.P99}, measure{name + " max", "µs", -1, k.Max})
		}
	}
	if c := f.QueryCompare; c != nil {
		list = append(list, measure{"ingest without readers", "rows/s", 1, c.Alone},
			measure{"ingest beside readers", "rows/s", 1, c.Beside}, measure{"beside readers to without", "", 1, c.Ratio})
	}
	list = append(list, measure{"all indexes, a row", "bytes", -1, f.IndexBytesPerRow})
	for _, c := range f.Indexes {
		list = append(list, measure{c.Index + ", a row", "bytes", -1, c.BytesPerRow}, measure{c.Index + ", a row", "ns", -1, c.NSPerRow})
	}
	list = append(list,
		measure{"PUTs", "", 0, float64(f.Puts)},
		measure{"PUTs a second", "/s", -1, f.PutsPerS},
		measure{"PUTs for a million rows", "", -1, per(float64(f.Puts)*1e6, float64(f.Rows))},
		measure{"list price of the PUTs", "$/month", -1, f.USDPerMonth},
		measure{"CPU", "s", 0, f.CPUS},
		measure{"rows per CPU second", "", 1, per(float64(f.Rows), f.CPUS)},
		measure{"peak memory", "MB", 0, f.PeakRSSMB}, // grows with the rows that were taken
		measure{"close", "s", -1, f.CloseS},
		measure{"reopen", "s", 0, f.ReopenS},
		measure{"reopen", "rows/s", 1, per(float64(f.VerifiedRows), f.ReopenS)},
		measure{"rows verified", "", 0, float64(f.VerifiedRows)},
	)
	there := list[:0]
	for _, m := range list {
		if m.value != 0 {
			there = append(there, m)
		}
	}
	return there
}

// number writes v with about four significant digits, whole from a thousand on.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return group(round(v))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a >= 1 || v == 0:
		return strconv.FormatFloat(v, 'f', 3, 64)
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}

// is tells whether o is the same figure.
func (m measure) is(o measure) bool { return m.name == o.name && m.unit == o.unit }

// text is the value of m with its unit.
func (m measure) text() string {
	s := number(m.value)
	if m.value == math.Trunc(m.value) {
		s = group(int64(m.value))
	}
	switch m.unit {
	case "":
		return s
	case "/s":
		return s + "/s"
	}
	return fmt.Sprintf("%s %s", s, m.unit)
}
