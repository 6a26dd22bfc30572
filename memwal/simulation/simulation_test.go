package simulation

import (
	"flag"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seedsFlag = flag.Int("seeds", 0, "seeds to run; default: some thousand, fewer with -short")
	firstSeed = flag.Uint64("seed", 1, "the first of them; with -seeds 1 its trace is logged")
)

// defaultSeeds is how many seeds a plain `go test` runs.
func defaultSeeds() int {
	switch {
	case raceEnabled:
		return 150
	case testing.Short():
		return 500
	}
	return 2000
}

// required lists what the runs have to meet to be worth anything.
var required = []string{
	"opens", "takeovers", "opens that replayed rows", "rows recovered", "rows acknowledged", "puts in peace", "fenced calls", "dead entries",
	"entries put again", "ownership checks", "kills at a request", "snapshots", "refreshes with news", "readers cut off",
	"recycled entries", "recycled fences", "recycled dead entries", "recycled manifests",
	"fault after", "fault delay", "fault duplicate", "fault late", "fault truncate", "fault ignore-condition",
	"fault unordered-list", "fault doubled-list", "fault short-list", "fault truncated-list",
	"fault status-403", "fault status-404", "fault status-409", "fault status-412", "fault status-429", "fault status-500", "fault status-503",
}

// enoughSeeds meet all of it, and more than once.
const enoughSeeds = 400

// sameSeeds is how many seeds are run twice. An order that is left to chance shows
// within a few.
const sameSeeds = 60

// TestSameSeedSameTrace runs seeds twice.
func TestSameSeedSameTrace(t *testing.T) {
	for i := range uint64(sameSeeds) {
		a, b := simulate(t, *firstSeed+i), simulate(t, *firstSeed+i)
		if slices.Equal(a.trace.lines, b.trace.lines) {
			continue
		}
		for i, l := range a.trace.lines {
			if i >= len(b.trace.lines) || b.trace.lines[i] != l {
				t.Fatalf("seed %d, line %d is %v, and was:\n%v", a.seed, i, b.trace.lines[i:min(i+1, len(b.trace.lines))], a.trace)
			}
		}
	}
}

// TestMain lets the collector rest: what a run allocates is gone in milliseconds.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestSimulation runs the seeds. See the package documentation.
func TestSimulation(t *testing.T) {
	n := *seedsFlag
	if n == 0 {
		n = defaultSeeds()
	}
	met := simulateAll(t, n)
	if t.Failed() {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%-28s %d", k, met[k])
	}
	for _, k := range required {
		if met[k] == 0 && n >= enoughSeeds {
			t.Errorf("%d seeds, and none met this: %s", n, k)
		}
	}
}

// simulateAll runs n seeds until one fails, and adds up what they met.
func simulateAll(t *testing.T, n int) counts {
	met := counts{}
	eachSeed(t, n, func(t *testing.T, out outcome) (goOn bool) {
		if out.failure != "" {
			t.Errorf("\n%v", out.report("TestSimulation$"))
			return false
		}
		if n == 1 {
			t.Logf("\n%v%s", out.trace, out.log)
		}
		met.add(out.met)
		return true
	})
	return met
}

// eachSeed runs n seeds on every core, and calls done after each, one call at a time.
// Once that has returned false, no seed is begun any more; those below were.
func eachSeed(t *testing.T, n int, done func(t *testing.T, out outcome) (goOn bool)) {
	var (
		next atomic.Int64
		mu   sync.Mutex
	)
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					out := simulate(t, *firstSeed+uint64(i))
					mu.Lock()
					if !done(t, out) {
						next.Store(int64(n))
					}
					mu.Unlock()
				}
			})
		}
	})
}
