package main

import (
	"bytes"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustParse(t *testing.T, args ...string) *config {
	t.Helper()
	c, err := parseFlags(args, &bytes.Buffer{})
	if err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	return c
}

func TestFlagsDefault(t *testing.T) {
	c := mustParse(t)
	if c.Index != indexAll || !c.Memtable || !c.Reopen || c.Indexed || c.synthetic() || !slices.Equal(c.Key, []string{"id"}) {
		t.Errorf("defaults are %+v", c)
	}
	if c.Interval != 100*time.Millisecond || c.FlushBytes != 1<<20 || c.MaxEntryBytes != 16<<20 || c.InFlight != 4 || c.MaxMemtable != 64<<20 || c.MaxResident != 4<<30 {
		t.Errorf("the defaults are not those of memwal.Options: %+v", c)
	}
	if c.opts["interval"] != "100ms" || c.opts["flush-bytes"] != int64(1<<20) || c.opts["index"] != "all" {
		t.Errorf("options for the report: %v", c.opts)
	}
}

func TestFlagsValues(t *testing.T) {
	c := mustParse(t, "-key", "a, b", "-async", "-flush-bytes", "2MiB", "-rows", "10", "-visible", "indexed", "-memtable=true", "-interval", "0")
	if !slices.Equal(c.Key, []string{"a", "b"}) || c.Async != 64 || c.FlushBytes != 2<<20 || !c.synthetic() || !c.Indexed {
		t.Errorf("got %+v", c)
	}
	if c := mustParse(t, "-async=7"); c.Async != 7 {
		t.Errorf("-async=7 is %d", c.Async)
	}
	if c := mustParse(t, "-memtable=false"); c.Index != indexNone {
		t.Errorf("-memtable=false leaves -index at %q", c.Index)
	}
	c = mustParse(t, "-index", "pk, ordered:a,text,text::simple,text:b:en", "-query")
	if !slices.Equal(c.Indexes, []indexItem{{kind: "pk"}, {"ordered", "a", ""}, {kind: "text"}, {"text", "", "simple"}, {"text", "b", "en"}}) || !c.keyed() || c.Query != 1 || c.synthetic() {
		t.Errorf("got %+v", c)
	}
	if c := mustParse(t, "-text", "a", "-query=3"); c.Index != "all,text" || c.Query != 3 || c.opts["query"] != 3 || c.opts["words"] != 20 {
		t.Errorf("got %+v", c)
	}
	if c := mustParse(t, "-words", "5"); !c.synthetic() || !c.worded() || c.hasIndex(indexText) {
		t.Errorf("-words alone makes no rows up, or indexes them: %+v", c)
	}
	if c := mustParse(t, "-rows", "5"); c.worded() {
		t.Error("made-up text is of words, though nobody wants to search it")
	}
	if c := mustParse(t, "-rows", "5", "-input", "x"); c.synthetic() {
		t.Error("-rows with -input makes rows up")
	}
}

func TestFlagsRejected(t *testing.T) {
	for _, tc := range []struct {
		args, want string
	}{
		{"-nonsense", "nonsense"},
		{"file.parquet", `"file.parquet"`},
		{"-async 7", `"7"`},
		{"-async=x", "number of batches"},
		{"-rows 0", "-rows is 0"},
		{"-rows -3", "-rows is -3"},
		{"-batch 0", "-batch is 0"},
		{"-dim -1", "-dim is -1"},
		{"-dim 3 -input x", "not with -input"},
		{"-writers 0", "-writers is 0"},
		{"-rate -1", "-rate is -1"},
		{"-rate NaN", "-rate is NaN"},
		{"-duration -1s", "-duration is -1s"},
		{"-latency -1ms", "-latency is -1ms"},
		{"-visible soon", `"soon"`},
		{"-interval -1s", "-interval is -1s"},
		{"-interval 0", "-visible indexed"},
		{"-flush-bytes 0", "-flush-bytes"},
		{"-flush-bytes many", "number of bytes"},
		{"-max-entry-bytes -1", "number of bytes"},
		{"-inflight 0", "-inflight is 0, must be from 1 to 64"},
		{"-inflight 65", "-inflight is 65, must be from 1 to 64"},
		{"-read -1", "-read is -1"},
		{"-read 2 -memtable=false", "-read 0"},
		{"-max-memtable-bytes 0", "-max-memtable-bytes"},
		{"-compress gzip", `"gzip"`},
		{"-index texts", `-index has "texts", must be none, pk,`},
		{"-index pk:id", `-index has "pk:id", which is one part too many`},
		{"-index ordered:a:b", `one part too many: ordered:COLUMN`},
		{"-index text:a:simple:b", `one part too many: text:COLUMN:ANALYZER`},
		{"-index text:a:nope,foo", `there is no analyzer "nope"; choose one of standard, simple, keyword,`},
		{"-index text:a:nope,foo", `-index has "foo"`},
		{"-index none,pk", "none goes with no other"},
		{"-index all,pk", "the same index twice"},
		{"-words 0", "-words is 0, must be from 1 to 10000"},
		{"-words 10001", "-words is 10001"},
		{"-words 5 -input x", "-words is for made-up rows"},
		{"-text=", "-text is empty"},
		{"-text a -index pk", "-text names the column of the text index, and -index pk has none: add text to it"},
		{"-query", "-query searches the text index, and -index all has none: give -index all,text, or -text COLUMN"},
		{"-query=x", "number of goroutines"},
		{"-query=-1", "-query is -1, must be from 0 to 1024"},
		{"-query 7", `"7"`},
		{"-text a -query -query-rate -1", "-query-rate is -1"},
		{"-query-rate 5", "-query-rate is for -query"},
		{"-where id>5", "-where filters what -query searches: it needs -query"},
		{"-text a -query -where=", "-where is empty"},
		{"-query-compare -duration 1s", "it needs -query or -read"},
		{"-text a -query -query-compare", "turns of an eighth of -duration: it needs one"},
		{"-text a -query -query-compare -duration 1s -baseline", "both take turns"},
		{"-text a -query -memtable=false -index none", "-query searches the text index"},
		{"-index pk -memtable=false", "-index none"},
		{"-memtable=false -visible indexed", "-visible durable"},
		{"-key , -index pk", "needs -key"},
		{"-key a,a", `"a" twice`},
		{"-soak 0s", "-soak is 0s"},
		{"-seed 1", "-seed is for -soak"},
		{"-faults", "-faults is for -soak"},
		{"-fault-script x", "-fault-script is for -soak"},
		{"-soak 1s -rows 5", "-rows is not for -soak"},
		{"-soak 1s -writers 65", "-writers is 65"},
		{"-batch 0 -writers 0", "-writers is 0"}, // every mistake at once
		{"-batch 0 -writers 0", "-batch is 0"},
	} {
		_, err := parseFlags(strings.Fields(tc.args), &bytes.Buffer{})
		if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want a usage error with %q", tc.args, err, tc.want)
		}
	}
}

func TestFlagsOfASoak(t *testing.T) {
	c := mustParse(t, "-soak", "10m", "-faults")
	if c.Writers != soakWriters || c.Read != soakReaders || c.opts["faults"] != true || c.opts["rows"] != nil {
		t.Errorf("got %+v", c)
	}
	if o := c.soakOptions(); o.FlushInterval != 0 || o.MaxInFlight != 0 || o.Compression != "" {
		t.Errorf("options that were not given are fixed: %+v", o)
	}
	c = mustParse(t, "-soak", "10m", "-writers", "5", "-read", "0", "-interval", "50ms", "-inflight", "2", "-flush-bytes", "1", "-max-entry-bytes", "2", "-compress", "lz4")
	if o := c.soakOptions(); c.Writers != 5 || c.Read != 0 || o.FlushInterval != 50*time.Millisecond || o.MaxInFlight != 2 || o.FlushBytes != 1 || o.MaxEntryBytes != 2 || o.Compression != "lz4" {
		t.Errorf("got %+v, %+v", c, o)
	}
	if c := mustParse(t); c.opts["soak"] != nil || c.opts["seed"] != nil {
		t.Errorf("the options of an ingest have those of a soak: %v", c.opts)
	}
}

func TestFlagsHelp(t *testing.T) {
	var out bytes.Buffer
	if _, err := parseFlags([]string{"-help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"-store", "-max-resident-bytes bytes", "(default 1MiB)", "-async N"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("help does not mention %q:\n%s", name, out.String())
		}
	}
	for entry := range strings.SplitSeq(out.String(), "\n  -") {
		if strings.Count(entry, "(default") > 1 {
			t.Errorf("two defaults: %s", entry)
		}
	}
}

func TestByteSize(t *testing.T) {
	for s, want := range map[string]byteSize{
		"0": 0, "1": 1, "1B": 1, "1k": 1 << 10, "1KiB": 1 << 10, "1kB": 1000, "1.5MiB": 3 << 19, "2 mb": 2e6, "3G": 3 << 30, "1TiB": 1 << 40,
	} {
		var b byteSize
		if err := b.Set(s); err != nil || b != want {
			t.Errorf("%q is %d, %v; want %d", s, b, err, want)
		}
	}
	for _, s := range []string{"", "x", "-1", "1XB", "9223372036854775808", "NaN", "1e300GB"} {
		var b byteSize
		if err := b.Set(s); err == nil {
			t.Errorf("%q is accepted as %d", s, b)
		}
	}
	for b, want := range map[byteSize]string{0: "0", 1000: "1000", 1 << 20: "1MiB", 3 << 30: "3GiB", 1536: "1536"} {
		if got := b.String(); got != want {
			t.Errorf("%d is written as %q, want %q", int64(b), got, want)
		}
	}
}
