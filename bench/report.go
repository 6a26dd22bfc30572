package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/memwal/memwal-go/objstore"
)

// dollarsPerPut is what Amazon S3 Standard charges in us-east-1.
var dollarsPerPut = objstore.S3Standard().ClassA / 1000

const secondsPerMonth = 30 * 24 * 60 * 60

// figures are what a run measured, as -json writes them. doc.go says what each
// is.
type figures struct {
	Rows         int64     `json:"rows"`
	Bytes        int64     `json:"bytes"` // of objects written
	Seconds      float64   `json:"seconds"`
	RowsPerS     float64   `json:"rows_per_s"`
	MBPerS       float64   `json:"mb_per_s"`
	AckMS        ackMillis `json:"ack_ms"`
	Puts         int64     `json:"puts"`
	PutsPerS     float64   `json:"puts_per_s"`
	USDPerMonth  float64   `json:"usd_per_month"`
	CloseS       float64   `json:"close_s"`
	ReopenS      float64   `json:"reopen_s"`      // 0 if it was not reopened
	VerifiedRows int64     `json:"verified_rows"` // 0 if it was not reopened
	CPUS         float64   `json:"cpu_s"`
	PeakRSSMB    float64   `json:"peak_rss_mb"`

	// With -baseline.
	BaselineMBPerS float64   `json:"baseline_mb_per_s,omitempty"`
	BaselineRatio  float64   `json:"baseline_ratio,omitempty"` // MBPerS to that
	BaselinePutMS  ackMillis `json:"baseline_put_ms,omitzero"`

	Read         *readFigures    `json:"read_us,omitempty"`       // with -read
	Query        *queryFigures   `json:"query_us,omitempty"`      // with -query
	QueryCompare *compareFigures `json:"query_compare,omitempty"` // with -query-compare

	IndexBytesPerRow float64     `json:"index_bytes_per_row,omitempty"` // of all indexes, when the last row was durable
	Indexes          []indexCost `json:"indexes,omitempty"`             // each by itself

	Options map[string]any `json:"options"`
	Error   string         `json:"error,omitempty"` // why the run failed
}

type ackMillis struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// derive computes the rates from the counts.
func (f *figures) derive() {
	f.RowsPerS = per(float64(f.Rows), f.Seconds)
	f.MBPerS = per(float64(f.Bytes)/1e6, f.Seconds)
	f.PutsPerS = per(float64(f.Puts), f.Seconds)
	f.BaselineRatio = per(f.MBPerS, f.BaselineMBPerS)
	f.USDPerMonth = f.PutsPerS * dollarsPerPut * secondsPerMonth
}

// report is figures and what only people want to know.
type report struct {
	figures
	Batches    int64
	Samples    []sample
	ArrowBytes int64 // of the rows, in memory
	Preparing  bool  // input was prepared while the clock ran
}

// printIngest prints what was measured up to the end of Close.
func (r *report) printIngest(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("rows", "%s in %s batches, %.3f s: %s rows/s", group(r.Rows), group(r.Batches), r.Seconds, group(round(r.RowsPerS)))
	line("written", "%s: %.1f MB/s (as Arrow in memory %s: %.1f MB/s)", megabytes(r.Bytes), r.MBPerS,
		megabytes(r.ArrowBytes), per(float64(r.ArrowBytes)/1e6, r.Seconds))
	if r.BaselineMBPerS > 0 {
		line("baseline", "%.1f MB/s by bare puts of as large bodies, each p50 %s, p99 %s: the ingest is at %.3f of it",
			r.BaselineMBPerS, millis(r.BaselinePutMS.P50), millis(r.BaselinePutMS.P99), r.BaselineRatio)
	}
	line("ack latency", "p50 %s, p95 %s, p99 %s, max %s", millis(r.AckMS.P50), millis(r.AckMS.P95), millis(r.AckMS.P99), millis(r.AckMS.Max))
	r.printReaders(line)
	line("PUTs", "%s, %.1f/s: %s for this run, %s a month at this rate (list price: $0.005 per 1,000 PUTs, S3 Standard)",
		group(r.Puts), r.PutsPerS, dollars(float64(r.Puts)*dollarsPerPut), dollars(r.USDPerMonth))
	note := "of this process"
	if r.Read != nil || r.Query != nil {
		note += ", readers included"
	}
	if r.Preparing {
		note += ", preparing the rest of the input included"
	}
	line("CPU", "%.3f s %s: %s rows per CPU second", r.CPUS, note, group(round(per(float64(r.Rows), r.CPUS))))
	line("peak memory", "%.0f MB resident, prepared input included", r.PeakRSSMB)
	line("close", "%.3f s", r.CloseS)
	name := "indexes"
	if r.IndexBytesPerRow > 0 {
		line(name, "%.1f bytes a row in all", r.IndexBytesPerRow)
		name = ""
	}
	for _, c := range r.Indexes {
		line(name, "%s: %.1f bytes and %s a row, by itself, of %s rows", c.Index, c.BytesPerRow, millis(c.NSPerRow/1e6), group(c.Rows))
		name = ""
	}
}

// printReaders prints what was read beside the putters.
func (r *report) printReaders(line func(name, format string, args ...any)) {
	if r.Read != nil {
		name := "readers"
		for _, k := range r.Read.named() {
			line(name, "%-8s p50 %s, p95 %s, p99 %s, max %s; %s, %s/s", k.name, millis(k.P50/1e3), millis(k.P95/1e3),
				millis(k.P99/1e3), millis(k.Max/1e3), group(k.Count), group(round(r.perReadSecond(k.Count))))
			name = ""
		}
	}
	if r.Query != nil {
		name := "queries"
		for _, k := range r.Query.named() {
			line(name, "%-8s p50 %s, p90 %s, p99 %s, max %s; %s", k.name, millis(k.P50/1e3), millis(k.P90/1e3),
				millis(k.P99/1e3), millis(k.Max/1e3), group(k.Count))
			name = ""
		}
		line(name, "%s queries/s", group(round(r.Query.PerS)))
	}
	switch {
	case r.QueryCompare != nil:
		c := r.QueryCompare
		line("slow-down", "%s rows/s without readers, %s beside them: the writer loses %.1f %%; all other figures are of both", group(round(c.Alone)), group(round(c.Beside)), 100*(1-c.Ratio))
	case r.Read != nil:
		line("", "all other figures are those beside -read %d: compare with -read 0", r.Read.Readers)
	case r.Query != nil:
		line("", "all other figures are those beside -query=%d: -query-compare tells what that costs", r.Query.Queriers)
	}
}

// perReadSecond is a count of reads for each second of reading.
func (f *figures) perReadSecond(n int64) float64 {
	return per(float64(n), cmp.Or(f.Read.Seconds, f.Seconds))
}

func (r *report) printReopen(w io.Writer) {
	fmt.Fprintf(w, "%-13s%.3f s, replay included\n", "reopen", r.ReopenS)
	fmt.Fprintf(w, "%-13s%s rows, every value equal to the input\n", "verified", group(r.VerifiedRows))
}

// writeJSON writes the figures, and failure if the run failed, to out, which it
// closes.
func (r *report) writeJSON(out io.WriteCloser, failure error) error {
	f := r.figures
	if failure != nil {
		f.Error = failure.Error()
	}
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		data, err = appendSeries(data, r.Samples)
	}
	if err == nil {
		_, err = out.Write(append(data, '\n'))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write -json: %w", err)
	}
	return nil
}

// createJSON opens what -json names before the run, so that a wrong path does
// not cost one. Nil if there is none; stdout itself is never closed.
func createJSON(path string, stdout io.Writer) (io.WriteCloser, error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		return unclosed{stdout}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, usagef("-json: %w", err)
	}
	return f, nil
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// per is n for each of a count or a number of seconds; 0 if that is none.
func per(n, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return n / of
}

func round(f float64) int64 { return int64(math.Round(f)) }

// group writes n with commas: 1,234,567.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, d := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func millis(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", ms/1000)
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 1:
		return fmt.Sprintf("%.1f ms", ms)
	case ms >= 0.1:
		return fmt.Sprintf("%.3f ms", ms)
	default:
		return fmt.Sprintf("%.2f µs", ms*1e3)
	}
}

func dollars(d float64) string {
	switch {
	case d >= 100:
		return "$" + group(round(d))
	case d >= 0.01 || d == 0:
		return fmt.Sprintf("$%.2f", d)
	default:
		two, _ := strconv.ParseFloat(fmt.Sprintf("%.1e", d), 64) // significant digits
		return "$" + strconv.FormatFloat(two, 'f', -1, 64)
	}
}
