//go:build faults

package simulation

import (
	"cmp"
	"testing"

	"github.com/memwal/memwal-go/internal/fault"
)

// bound is the number of seeds within which each fault must be found. docs/testing.md
// says which seeds have found them.
const bound = 500

// rare has the bounds of faults that show only after several rare events in a row.
var rare = map[string]int{
	"RecycleDeadAtOnce": 4000,
	"SkipOverDead":      4000,
}

// TestSwitches puts one fault after the other back, and wants each to be found.
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

// firstFailure runs seeds until one fails, and returns the lowest that does; nil: none.
func firstFailure(t *testing.T, bound int) *outcome {
	var first *outcome
	eachSeed(t, bound, func(_ *testing.T, out outcome) (goOn bool) {
		if out.failure == "" {
			return true
		}
		if first == nil || out.seed < first.seed {
			first = &out
		}
		return false
	})
	return first
}
