package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/memwal/memwal-go/bench/internal/soak"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// The participants of a soak where -writers and -read do not say.
const (
	soakWriters = 3
	soakReaders = 2
)

// soakFlags are the flags that go with -soak.
var soakFlags = []string{"soak", "seed", "faults", "fault-script", "store", "keep", "latency", "writers", "read",
	"interval", "flush-bytes", "max-entry-bytes", "inflight", "compress", "json"}

// errSoakInterrupted: a soak was stopped from outside, and was clean until then.
var errSoakInterrupted = errors.New("interrupted: the round was completed and verified")

// soakFigures are what -json writes of a soak.
type soakFigures struct {
	soak.Figures
	Requests  map[string]objstore.OpValues `json:"requests"`
	PeakRSSMB float64                      `json:"peak_rss_mb"`
	Options   map[string]any               `json:"options"`
	Error     string                       `json:"error,omitempty"` // why it ended early

	failed bool // by a round
}

// runSoak is the program with -soak.
func runSoak(ctx context.Context, c *config, stdout, stderr io.Writer) (err error) {
	rules, err := c.faultRules()
	if err != nil {
		return err
	}
	seed := c.Seed
	if !c.set["seed"] {
		seed = rand.Uint64N(1e9) // easy to copy
	}
	out := stdout
	if c.JSON == "-" {
		out = stderr
	}
	js, err := createJSON(c.JSON, stdout)
	if err != nil {
		return err
	}
	store, err := openStore(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-13s%v in rounds of one shard each; seed %d\n", "soak", c.Soak, seed)
	fmt.Fprintf(out, "%-13s%s\n", "store", store.where)
	fmt.Fprintf(out, "%-13swriters: %d, readers: %d, and one that seals\n", "beside", c.Writers, c.Read)
	fmt.Fprintf(out, "%-13s%s\n", "faults", faultsText(rules))
	figures, err := soak.Run(ctx, soak.Config{
		Store: store, Duration: c.Soak, Seed: seed, Writers: c.Writers, Readers: c.Read, Faults: rules, Options: c.soakOptions(),
		Done: func(f soak.Figures) { fmt.Fprintln(out, soakRound(f)) },
	})
	failure, failed := errors.AsType[*soak.Failure](err)
	switch {
	case failed && store.lasting:
		err = fmt.Errorf("%w\nthe shard's objects are left in the store", err)
	case failed:
		err = fmt.Errorf("%w\n%s", err, dumpShard(store, failure))
	case err == nil && ctx.Err() != nil:
		err = errSoakInterrupted
	}
	f := soakFigures{Figures: figures, Requests: requestsByKind(store.counters.Snapshot()), PeakRSSMB: float64(peakMemory()) / 1e6, Options: c.opts, failed: failed}
	if err = errors.Join(err, store.Close()); err != nil {
		f.Error = err.Error()
	}
	f.print(out)
	if js != nil {
		err = errors.Join(err, f.writeJSON(js))
	}
	return err
}

// faultRules are those of -faults and -fault-script.
func (c *config) faultRules() ([]faultstore.Rule, error) {
	var rules []faultstore.Rule
	if c.Faults {
		rules = soak.Faults()
	}
	if c.FaultScript != "" {
		text, err := os.ReadFile(c.FaultScript)
		if err != nil {
			return nil, usagef("-fault-script: %w", err)
		}
		script, err := faultstore.ParseScript(string(text))
		if err != nil {
			return nil, usagef("-fault-script %s: %w", c.FaultScript, err)
		}
		rules = append(rules, script...)
	}
	return rules, nil
}

// soakOptions are the options that flags give: the others vary.
func (c *config) soakOptions() memwal.Options {
	var o memwal.Options
	if c.set["interval"] {
		o.FlushInterval = c.Interval
	}
	if c.set["flush-bytes"] {
		o.FlushBytes = int64(c.FlushBytes)
	}
	if c.set["max-entry-bytes"] {
		o.MaxEntryBytes = int64(c.MaxEntryBytes)
	}
	if c.set["inflight"] {
		o.MaxInFlight = c.InFlight
	}
	if c.Compress != "none" {
		o.Compression = memwal.Compression(c.Compress)
	}
	return o
}

func faultsText(rules []faultstore.Rule) string {
	if len(rules) == 0 {
		return "none of the store; processes are killed and stalled (-faults adds the store's)"
	}
	lines := make([]string, len(rules))
	for i, r := range rules {
		lines[i] = r.String()
	}
	return strings.Join(lines, "\n"+strings.Repeat(" ", 13))
}

// soakRound is the line of progress after a round.
func soakRound(f soak.Figures) string {
	return fmt.Sprintf("%-13s%d: %.0f s, %s opens, %s rows acknowledged, %s found, none lost; heap %.1f MB", "round",
		f.Rounds, f.Seconds, group(f.Opens), group(f.RowsAcknowledged), group(f.RowsFound), f.HeapMB)
}

// print prints the figures for people.
func (f *soakFigures) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s%s\n", name, fmt.Sprintf(format, args...))
	}
	n := group
	line("rounds", "%d in %.1f s", f.Rounds, f.Seconds)
	line("writers", "%s opens, %s takeovers, %s fenced, %s ended by faults of the store", n(f.Opens), n(f.Takeovers), n(f.Fenced), n(f.GaveUp))
	line("", "%s closed, %s killed, %s stalled, %s dropped", n(f.Closes), n(f.Kills), n(f.Stalls), n(f.Drops))
	line("seals", "%s, %s unseals, %s opens refused", n(f.Seals), n(f.Unseals), n(f.RefusedSealed))
	line("log", "%s dead entries, %s put again above them, %s ownership checks", n(f.DeadEntries), n(f.Reissued), n(f.OwnershipChecks))
	line("readers", "%s opened, %s refreshes", n(f.Readers), n(f.Refreshes))
	line("rows", "%s issued, %s acknowledged, %s found at the end of the rounds, %s by all opens", n(f.RowsIssued), n(f.RowsAcknowledged), n(f.RowsFound), n(f.RowsRecovered))
	line("checked", "%s rows in %s snapshots", n(f.RowsChecked), n(f.Snapshots))
	if f.failed {
		line("losses", "%s acknowledged rows; the last round failed, see the error", n(f.Losses))
	} else {
		line("losses", "%s", n(f.Losses))
	}
	line("injected", "%s", listed(f.Faults))
	requests := map[string]int64{}
	for op, v := range f.Requests {
		requests[op] = int64(v.Requests)
	}
	line("requests", "%s", listed(requests))
	line("memory", "heap %.1f MB after the last round, at most %.1f MB; %.0f MB resident at the peak", f.HeapMB, f.MaxHeapMB, f.PeakRSSMB)
}

// listed writes counts in the order of their names, those of zero left out.
func listed(counts map[string]int64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", name, group(counts[name])))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func (f *soakFigures) writeJSON(out io.WriteCloser) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		_, err = out.Write(append(data, '\n'))
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write -json: %w", err)
	}
	return nil
}

// requestsByKind are the requests that reached the store.
func requestsByKind(v objstore.CounterValues) map[string]objstore.OpValues {
	return map[string]objstore.OpValues{
		string(objstore.OpGet): v.Get, string(objstore.OpGetRange): v.GetRange, string(objstore.OpHead): v.Head, string(objstore.OpList): v.List,
		string(objstore.OpPut): v.Put, string(objstore.OpPutIfAbsent): v.PutIfAbsent, string(objstore.OpDelete): v.Delete,
	}
}

// dumpShard saves the objects of a store that ends with the program, and says
// where they are.
func dumpShard(store *openedStore, f *soak.Failure) string {
	dir, err := os.MkdirTemp("", "memwal-soak-")
	if err == nil {
		err = soak.Dump(context.Background(), store.plain, f.Shard, dir)
	}
	if err != nil {
		return fmt.Sprintf("the shard's objects could not be saved: %v", err)
	}
	return "the shard's objects are in " + dir
}
