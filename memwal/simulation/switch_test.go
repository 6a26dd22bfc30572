//go:build faults

package simulation

import (
	"cmp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memwal/memwal-go/internal/fault"
)

// Within so many seeds each fault must be found; docs/testing.md says within how many
// it was.
const bound = 500

// rare are those that need more: several rare things in a row.
var rare = map[string]int{
	"RecycleDeadAtOnce": 4000,
	"SkipOverDead":      4000,
}

// TestSwitches puts one fault after the other back and looks how soon it is found.
func TestSwitches(t *testing.T) {
	for _, name := range fault.Names() {
		t.Run(name, func(t *testing.T) {
			fault.Set(name, true)
			defer fault.Set(name, false)
			bound := cmp.Or(rare[name], bound)
			if *seedsFlag > 0 {
				bound = *seedsFlag
			}
			found := firstFailure(t, bound)
			if found == nil {
				t.Errorf("not found within %d seeds", bound)
				return
			}
			if *seedsFlag == 1 {
				t.Logf("\n%v", found.report("TestSwitches/"+name+"$"))
				return
			}
			t.Logf("found by seed %d: %s\nits trace: go test -tags faults ./memwal/simulation -run 'TestSwitches/%s$' -seed %d -seeds 1 -v",
				found.seed, found.failure, name, found.seed)
		})
	}
}

// firstFailure runs seeds until one fails, and returns the lowest that does.
func firstFailure(t *testing.T, bound int) *outcome {
	var (
		next, stop atomic.Int64
		mu         sync.Mutex
		first      *outcome
	)
	stop.Store(int64(bound))
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for {
					i := next.Add(1) - 1
					if i >= stop.Load() {
						return
					}
					out := simulate(t, *firstSeed+uint64(i))
					if out.failure == "" {
						continue
					}
					mu.Lock()
					if first == nil || out.seed < first.seed {
						first = &out
					}
					mu.Unlock()
					stop.Store(min(stop.Load(), i))
				}
			})
		}
	})
	return first
}
