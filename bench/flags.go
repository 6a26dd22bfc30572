package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is what the command line asks for.
type config struct {
	Store   string // "" is a fresh temporary folder
	Keep    bool
	Latency time.Duration

	Input string
	Key   []string
	Rows  int64 // 0 is all
	Batch int64
	Dim   int
	Text  string // the column of text; "": the first one
	Words int    // of a made-up text

	Writers  int
	Async    int     // batches outstanding
	Rate     float64 // rows per second, 0 is unlimited
	Duration time.Duration

	Indexed       bool // VisibleIndexed
	Interval      time.Duration
	MaxPUTs       float64 // a second, 0 is unlimited
	FlushBytes    byteSize
	MaxEntryBytes byteSize
	InFlight      int
	Compress      string
	Index         string
	Indexes       []indexItem // what Index says
	Memtable      bool
	MaxMemtable   byteSize
	MaxResident   byteSize

	Baseline bool
	Read     int // goroutines

	Query        int     // goroutines
	QueryRate    float64 // queries per second, 0 is unlimited
	QueryCompare bool
	Where        string // of the searches; "": all rows

	Soak        time.Duration // 0 is none
	Seed        uint64
	Faults      bool
	FaultScript string

	Reopen     bool
	JSON       string
	HTML       string
	Compare    []string // two files
	CPUProfile string
	MemProfile string

	set  map[string]bool // flags given on the command line
	opts map[string]any  // every flag and its value, for the report
}

// The defaults that other files need.
const (
	defaultKey  = "id"
	defaultRows = 100_000 // with -dim or -words alone
	defaultText = "text"
)

// keyed tells whether the table has a primary key.
func (c *config) keyed() bool { return c.hasIndex(indexPK) }

// synthetic tells whether rows are made up instead of read.
func (c *config) synthetic() bool {
	return c.Input == "" && (c.set["rows"] || c.set["dim"] || c.set["words"])
}

// worded tells whether made-up text is of -words words.
func (c *config) worded() bool { return c.set["text"] || c.set["words"] || c.hasIndex(indexText) }

// usageError is a mistake on the command line or in what it names: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// parseFlags returns the configuration, flag.ErrHelp, or a usageError that
// holds every mistake. Help goes to out.
func parseFlags(args []string, out io.Writer) (*config, error) {
	c := &config{set: map[string]bool{}, opts: map[string]any{}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are printed once, by main
	var key, visible string
	var compare bool
	c.define(fs, &key, &visible, &compare)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(out)
			fmt.Fprintln(out, "usage: bench [flags]    (what is measured, and how: go doc ./bench)")
			fs.PrintDefaults()
			return nil, err
		}
		return nil, &usageError{err}
	}
	fs.Visit(func(f *flag.Flag) { c.set[f.Name] = true })
	if compare {
		if c.Compare = fs.Args(); len(c.Compare) != 2 || fs.NFlag() > 1 {
			return nil, usagef("-compare takes the names of two files that -json wrote, and no other flag: -compare A.json B.json")
		}
		return c, nil
	}
	if fs.NArg() > 0 {
		return nil, usagef("unexpected argument %q: every argument is a flag (-async and -query take their number after an equals sign)", fs.Arg(0))
	}
	for name := range strings.SplitSeq(key, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Key = append(c.Key, name)
		}
	}
	c.Indexed = visible == "indexed"
	switch {
	case c.set["index"]:
	case !c.Memtable:
		c.Index = indexNone
	case c.set["text"]:
		c.Index = indexAll + "," + indexText
	}
	if c.Soak > 0 {
		if !c.set["writers"] {
			c.Writers = soakWriters
		}
		if !c.set["read"] {
			c.Read = soakReaders
		}
	}
	if err := c.validate(visible); err != nil {
		return nil, &usageError{err}
	}
	fs.VisitAll(func(f *flag.Flag) { c.opts[f.Name] = flagValue(f) })
	c.opts["index"] = c.Index
	maps.DeleteFunc(c.opts, func(name string, _ any) bool {
		switch {
		case name == "compare":
			return true // is of no run
		case c.Soak > 0:
			return !slices.Contains(soakFlags, name)
		}
		return slices.Contains([]string{"soak", "seed", "faults", "fault-script"}, name)
	})
	return c, nil
}

func (c *config) define(fs *flag.FlagSet, key, visible *string, compare *bool) {
	c.FlushBytes, c.MaxEntryBytes, c.MaxMemtable, c.MaxResident = 1<<20, 16<<20, 64<<20, 4<<30

	fs.StringVar(&c.Store, "store", "", "where the shard goes: mem://, file:///dir, s3://bucket/prefix?endpoint=…&use_path_style=true, or minio, which starts one (default: a fresh temporary folder)")
	fs.BoolVar(&c.Keep, "keep", false, "keep the temporary folder")
	fs.DurationVar(&c.Latency, "latency", 0, "make requests as slow as those of an object store: with this median, a 99th percentile of 2.4 times it, and 90 MB/s each")

	fs.StringVar(&c.Input, "input", "", "file to ingest: Parquet, Arrow IPC file or stream (default: an embedded Parquet file of 200,000 flights)")
	fs.StringVar(key, "key", defaultKey, "key columns, separated by commas; id alone, where the input has no such column, is added as an ordinal")
	fs.Int64Var(&c.Rows, "rows", 0, "without -input: make up so many rows of id and text (100,000 if only -dim or -words is given); with it: read no more than so many")
	fs.Int64Var(&c.Batch, "batch", 8192, "rows per batch")
	fs.IntVar(&c.Dim, "dim", 0, "made-up rows also have a vector of so many float32; -dim alone makes up 100,000 rows")

	fs.StringVar(&c.Text, "text", "", "`column` of the text index; without -index, that one is added to the others. Of made-up rows it names the column that is made up (default: the first column of text that is no key; of made-up rows, text)")
	fs.IntVar(&c.Words, "words", 20, "words of a made-up text for a text index, drawn from a vocabulary of 30,000 as frequent as those of a language; -words alone makes up 100,000 rows")

	fs.IntVar(&c.Writers, "writers", 8, "concurrent putters")
	fs.Var(countFlag{&c.Async, 64, "batches"}, "async", "putters use PutAsync, each with at most `N` batches outstanding; -async alone is -async=64")
	fs.Float64Var(&c.Rate, "rate", 0, "rows per second of all putters together (default: as fast as possible)")
	fs.DurationVar(&c.Duration, "duration", 0, "repeat the input with new keys for so long")

	fs.StringVar(visible, "visible", "durable", "when a put is acknowledged: durable or indexed")
	fs.DurationVar(&c.Interval, "interval", 100*time.Millisecond, "flush interval: least spacing of appends started by time; 0 is none")
	fs.Float64Var(&c.MaxPUTs, "max-puts", 0, "ceiling on PUTs a second, over any minute: a run of less shows the burst that follows a pause (default: none)")
	fs.Var(&c.FlushBytes, "flush-bytes", "pending `bytes` that start an append before the interval has passed")
	fs.Var(&c.MaxEntryBytes, "max-entry-bytes", "most `bytes` of several batches in one WAL entry")
	fs.IntVar(&c.InFlight, "inflight", 4, "appends in flight, from 1 to 64")
	fs.StringVar(&c.Compress, "compress", "none", "body compression of WAL entries: none, lz4 or zstd")
	fs.StringVar(&c.Index, "index", indexAll, "none, or several of these, separated by commas. pk: primary key on the -key columns; ordered[:COLUMN]: ordered index, on the first column that is no key; text[:COLUMN[:ANALYZER]]: full text, on the column of -text, with an analyzer of bleve's (standard); all: pk,ordered")
	fs.BoolVar(&c.Memtable, "memtable", true, "keep rows in memory; -memtable=false writes the log only, which implies -index none and -visible durable, and a reopen only of what fits into memory (see -reopen)")
	fs.Var(&c.MaxMemtable, "max-memtable-bytes", "most `bytes` of rows in one memtable; no more than -max-resident-bytes")
	fs.Var(&c.MaxResident, "max-resident-bytes", "most `bytes` of rows and indexes in memory")

	fs.BoolVar(&c.Baseline, "baseline", false, "take turns with bare puts of as large bodies, and compare the throughput")

	fs.IntVar(&c.Read, "read", 0, "goroutines that read and check beside the putters: snapshots, lookups, ranges, scans, as fast as they can")

	fs.Var(countFlag{&c.Query, 1, "goroutines"}, "query", "`N` goroutines that query and check beside the putters: words, phrases and prefixes of the first text index, lookups; -query alone is -query=1")
	fs.Float64Var(&c.QueryRate, "query-rate", 0, "queries per second of all goroutines of -query together (default: as fast as they can)")
	fs.StringVar(&c.Where, "where", "", "`filter` of the searches of -query, which then also count the rows that it is true for: 'id >= 1000 and not isNull(text)' (see go doc ./memwal/filtertext)")
	fs.BoolVar(&c.QueryCompare, "query-compare", false, "putters take turns, each an eighth of -duration, with and without readers beside them: what do readers cost the writer?")

	fs.DurationVar(&c.Soak, "soak", 0, "measure nothing: for so long, have writers and readers use one shard after another, kill, stall, fence and seal them, and check everything")
	fs.Uint64Var(&c.Seed, "seed", 0, "of -soak: what its plan is drawn from (default: a random one, which is printed)")
	fs.BoolVar(&c.Faults, "faults", false, "with -soak: inject faults of the store, a mix of all that a store may do")
	fs.StringVar(&c.FaultScript, "fault-script", "", "with -soak: inject the faults of this `file`, one rule a line (see faultstore.ParseScript), besides those of -faults")

	fs.BoolVar(&c.Reopen, "reopen", true, "reopen the shard and compare every row with the input; with -memtable=false, unless this flag is given, only if the rows fit into half of -max-resident-bytes")
	fs.StringVar(&c.JSON, "json", "", "write the figures to this `file` too; - is standard output, and then the report goes to standard error")
	fs.StringVar(&c.HTML, "html", "", "write a page with charts to this `file` too; it needs nothing else, no network either")
	fs.BoolVar(compare, "compare", false, "run nothing: print the differences of two files of -json, which follow: -compare A.json B.json")
	fs.StringVar(&c.CPUProfile, "cpuprofile", "", "write a CPU profile of the ingest to this `file`")
	fs.StringVar(&c.MemProfile, "memprofile", "", "write a heap profile, taken at the end of the ingest, to this `file`")
}

// validate reports every violation, joined.
func (c *config) validate(visible string) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Rows > 0 || !c.set["rows"], "-rows is %d, must be positive", c.Rows)
	check(c.Batch > 0 && c.Batch <= 1<<24, "-batch is %d, must be from 1 to 16777216", c.Batch)
	check(c.Dim >= 0 && c.Dim <= 1<<16, "-dim is %d, must be from 0 to 65536", c.Dim)
	check(c.Dim == 0 || c.Input == "", "-dim is for made-up rows, not with -input")
	check(c.Writers > 0 && c.Writers <= 1<<16, "-writers is %d, must be from 1 to 65536", c.Writers)
	check(c.Async >= 0, "-async is %d, must not be negative", c.Async)
	check(c.Rate >= 0 && !math.IsInf(c.Rate, 0) && !math.IsNaN(c.Rate), "-rate is %v, must be 0 for no limit, or a positive number of rows per second", c.Rate)
	check(c.Duration >= 0, "-duration is %v, must not be negative", c.Duration)
	check(visible == "durable" || visible == "indexed", "-visible is %q, must be durable or indexed", visible)
	check(c.Latency >= 0, "-latency is %v, must not be negative", c.Latency)
	check(c.Interval >= 0, "-interval is %v, must not be negative", c.Interval)
	check(c.Interval != 0 || c.Indexed, "-interval 0 needs -visible indexed: a small lone put would wait for ever to be durable")
	check(c.MaxPUTs >= 0 && !math.IsInf(c.MaxPUTs, 0) && !math.IsNaN(c.MaxPUTs), "-max-puts is %v, must be 0 for no ceiling, or a positive number of PUTs per second", c.MaxPUTs)
	check(c.JSON == "" || c.JSON == "-" || c.JSON != c.HTML, "-json and -html name the same file, %s", c.JSON)
	check(c.FlushBytes > 0, "-flush-bytes must be positive")
	check(c.MaxEntryBytes > 0, "-max-entry-bytes must be positive")
	check(c.MaxMemtable > 0, "-max-memtable-bytes must be positive")
	check(c.MaxResident > 0, "-max-resident-bytes must be positive")
	check(c.InFlight > 0 && c.InFlight <= 64, "-inflight is %d, must be from 1 to 64", c.InFlight)
	switch c.Compress {
	case "none", "lz4", "zstd":
	default:
		check(false, "-compress is %q, must be none, lz4 or zstd", c.Compress)
	}
	var err error
	if c.Indexes, err = parseIndexes(c.Index); err != nil {
		errs = append(errs, err)
	}
	check(c.Words > 0 && c.Words <= 10_000, "-words is %d, must be from 1 to 10000", c.Words)
	check(!c.set["words"] || c.Input == "", "-words is for made-up rows, not with -input")
	check(!c.set["text"] || c.Text != "", "-text is empty, must be the name of a column")
	check(!c.set["text"] || c.synthetic() || c.hasIndex(indexText) || err != nil, "-text names the column of the text index, and -index %s has none: add text to it", c.Index)
	check(c.Memtable || c.Index == indexNone, "-memtable=false keeps nothing to be indexed: it needs -index none")
	check(c.Memtable || !c.Indexed, "-memtable=false has no indexes: it needs -visible durable")
	check(c.Read >= 0 && c.Read <= 1024, "-read is %d, must be from 0 to 1024", c.Read)
	check(c.Memtable || c.Read == 0, "-memtable=false keeps nothing to be read: it needs -read 0")
	check(c.Query >= 0 && c.Query <= 1024, "-query is %d, must be from 0 to 1024", c.Query)
	check(c.Query == 0 || c.hasIndex(indexText) || err != nil, "-query searches the text index, and -index %s has none: give -index %[1]s,text, or -text COLUMN", c.Index)
	check(c.QueryRate >= 0 && !math.IsInf(c.QueryRate, 0) && !math.IsNaN(c.QueryRate), "-query-rate is %v, must be 0 for no limit, or a positive number of queries per second", c.QueryRate)
	check(c.Query > 0 || !c.set["query-rate"], "-query-rate is for -query")
	check(c.Query > 0 || !c.set["where"], "-where filters what -query searches: it needs -query")
	check(c.Where != "" || !c.set["where"], "-where is empty, must be a filter such as 'id >= 1000'")
	check(!c.QueryCompare || c.Query > 0 || c.Read > 0, "-query-compare compares with readers: it needs -query or -read")
	check(!c.QueryCompare || c.Duration > 0, "-query-compare takes turns of an eighth of -duration: it needs one")
	check(!c.QueryCompare || !c.Baseline, "-query-compare and -baseline both take turns: give one of them")
	check(!c.keyed() || len(c.Key) > 0, "-index %s needs -key", c.Index)
	check(c.Soak > 0 || !c.set["soak"], "-soak is %v, must be positive", c.Soak)
	for _, name := range []string{"seed", "faults", "fault-script"} {
		check(c.Soak > 0 || !c.set[name], "-%s is for -soak", name)
	}
	if c.Soak > 0 {
		for _, name := range slices.Sorted(maps.Keys(c.set)) {
			check(slices.Contains(soakFlags, name), "-%s is not for -soak, which takes %s", name, "-"+strings.Join(soakFlags, ", -"))
		}
		check(c.Writers <= 64, "-writers is %d, must be from 1 to 64 with -soak", c.Writers)
	}
	seen := map[string]bool{}
	for _, k := range c.Key {
		check(!seen[k], "-key names %q twice", k)
		seen[k] = true
	}
	return errors.Join(errs...)
}

// flagValue is the value of f as it goes into JSON.
func flagValue(f *flag.Flag) any {
	switch v := f.Value.(flag.Getter).Get().(type) {
	case time.Duration:
		return v.String()
	default:
		return v
	}
}

// countFlag is a number of things; given without a number it is bare. 0 is off.
type countFlag struct {
	n      *int
	bare   int
	things string
}

func (f countFlag) IsBoolFlag() bool { return true }
func (f countFlag) Get() any         { return *f.n }

func (f countFlag) String() string {
	if f.n == nil {
		return "0" // package flag asks the zero value
	}
	return strconv.Itoa(*f.n)
}

func (f countFlag) Set(s string) error {
	switch s {
	case "true":
		*f.n = f.bare
		return nil
	case "false":
		*f.n = 0
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("must be a number of %s", f.things)
	}
	*f.n = n
	return nil
}

// byteSize is a number of bytes, written plain or with a unit: 64MiB, 1.5GB, 512k.
type byteSize int64

func (b *byteSize) Get() any { return int64(*b) }

func (b *byteSize) String() string {
	for _, u := range byteUnits {
		if n := int64(*b); u.factor >= 1<<10 && u.factor&(u.factor-1) == 0 && n >= u.factor && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

func (b *byteSize) Set(s string) error {
	text, factor := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if rest, ok := cutSuffixFold(text, u.name); ok {
			text, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*float64(factor) >= math.MaxInt64 {
		return fmt.Errorf("must be a number of bytes such as 1048576, 1MiB or 4GB")
	}
	*b = byteSize(v * float64(factor))
	return nil
}

// byteUnits are tried in order: longer names before their endings.
var byteUnits = []struct {
	name   string
	factor int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"k", 1 << 10}, {"B", 1},
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
