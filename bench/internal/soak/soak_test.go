package soak

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// missing names what never happened of what a soak is about.
func missing(f Figures) []string {
	var names []string
	for name, n := range map[string]int64{
		"rounds": int64(f.Rounds), "opens": f.Opens, "takeovers": f.Takeovers, "fenced": f.Fenced, "closes": f.Closes,
		"kills": f.Kills, "stalls": f.Stalls, "drops": f.Drops, "seals": f.Seals, "unseals": f.Unseals,
		"readers": f.Readers, "refreshes": f.Refreshes, "snapshots": f.Snapshots,
		"issued": f.RowsIssued, "acknowledged": f.RowsAcknowledged, "found": f.RowsFound, "recovered": f.RowsRecovered, "checked": f.RowsChecked,
		"before": f.Faults[string(faultstore.StatusFault(503))], "after": f.Faults[string(faultstore.FaultAfter)],
		"delay": f.Faults[string(faultstore.FaultDelay)], "hold": f.Faults[string(faultstore.FaultHold)],
		"duplicate": f.Faults[string(faultstore.FaultDuplicate)], "unordered": f.Faults[string(faultstore.FaultUnorderedList)],
	} {
		if n == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A soak with faults is clean, meets everything, and leaves nothing in the store.
// It ends when it has met everything.
func TestSoak(t *testing.T) {
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	store := objstore.NewMemory()
	f, err := Run(ctx, Config{
		Store: store, Duration: 2 * time.Minute, Round: time.Second, Seed: 1, Writers: 3, Readers: 2, Faults: Faults(),
		Done: func(f Figures) {
			if len(missing(f)) == 0 {
				enough()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if never := missing(f); len(never) > 0 {
		t.Errorf("never happened: %q", never)
	}
	if f.Seed != 1 || f.Seconds <= 0 || f.Losses != 0 || f.HeapMB <= 0 || f.MaxHeapMB < f.HeapMB {
		t.Errorf("figures are %+v", f)
	}
	for o, err := range store.List(t.Context(), "") {
		t.Errorf("%s is left, %v", o.Key, err)
	}
}

// Without faults of the store there are kills and stalls alone, and no error is
// excused by a fault.
func TestSoakWithoutFaults(t *testing.T) {
	f, err := Run(t.Context(), Config{Store: objstore.NewMemory(), Duration: time.Second, Seed: 2, Writers: 2, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for kind, n := range f.Faults {
		if kind != string(faultstore.FaultHold) && kind != string(faultstore.FaultLate) {
			t.Errorf("%d faults of kind %s", n, kind)
		}
	}
	if f.GaveUp != 0 {
		t.Errorf("%d writers gave up", f.GaveUp)
	}
}

// A store that breaks its contract is found out, and the shard stays as it is.
func TestSoakFindsABrokenStore(t *testing.T) {
	for name, rule := range map[string]faultstore.Rule{
		"puts replace":         {Ops: []objstore.Op{objstore.OpPutIfAbsent}, Key: "_mem_wal/*/wal/*", Count: -1, IgnoreCondition: true},
		"entries are not read": {Ops: []objstore.Op{objstore.OpGet}, Key: "_mem_wal/*/wal/*", Count: -1, Chance: 0.05, Before: faultstore.Status(404)},
	} {
		t.Run(name, func(t *testing.T) {
			store := objstore.NewMemory()
			_, err := Run(t.Context(), Config{Store: store, Duration: time.Minute, Seed: 3, Writers: 3, Readers: 1, Faults: []faultstore.Rule{rule}})
			f, ok := errors.AsType[*Failure](err)
			if _, violation := asViolation(err); !ok || !violation || f.Seed != 3 || f.Round == 0 {
				t.Fatalf("got %v, want a failure by a violation", err)
			}
			dir := t.TempDir()
			if err := Dump(t.Context(), store, f.Shard, dir); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(filepath.Join(dir, "_mem_wal", f.Shard.String(), "wal"))
			if err != nil || len(entries) == 0 {
				t.Errorf("%d entries were saved, %v", len(entries), err)
			}
			if err := Delete(t.Context(), store, f.Shard); err != nil {
				t.Error(err)
			}
		})
	}
}

// testRound is a round of a soak without faults.
func testRound(faults ...faultstore.Rule) *round {
	return &round{s: &soak{c: Config{Faults: faults}}, shard: uuid.New()}
}

// Errors are excused by what explains them, and by nothing else.
func TestExplain(t *testing.T) {
	faulty := faultstore.Rule{Before: faultstore.Status(503)}
	truncating := faultstore.Rule{Truncate: 1}
	for _, tc := range []struct {
		name      string
		err       error
		round     *round
		x         excuse
		rival     bool // another claim begins
		sealed    bool // a seal begins
		explained bool
	}{
		{"none", nil, testRound(), excuse{}, false, false, true},
		{"fenced by a rival", memwal.ErrFenced, testRound(), excuse{}, true, false, true},
		{"fenced by nobody", memwal.ErrFenced, testRound(), excuse{}, false, false, false},
		{"fenced in spite of faults", memwal.ErrFenced, testRound(faulty), excuse{}, false, true, false},
		{"sealed", memwal.ErrSealed, testRound(), excuse{}, false, true, true},
		{"sealed by nobody", memwal.ErrSealed, testRound(), excuse{}, true, false, false},
		{"aborted", memwal.ErrAborted, testRound(), excuse{killed: true}, false, false, true},
		{"aborted by nobody", memwal.ErrAborted, testRound(faulty), excuse{stalled: true}, false, false, false},
		{"injected", faultstore.Status(503), testRound(faulty), excuse{}, false, false, true},
		{"injected by nobody", faultstore.Status(503), testRound(), excuse{killed: true, stalled: true}, false, false, false},
		{"timeout of a stall", context.DeadlineExceeded, testRound(), excuse{stalled: true}, false, false, true},
		{"timeout of nothing", context.DeadlineExceeded, testRound(), excuse{}, false, false, false},
		{"damaged on the way", memwal.ErrCorrupt, testRound(truncating), excuse{}, false, false, true},
		{"damaged", memwal.ErrCorrupt, testRound(faulty), excuse{killed: true, stalled: true}, true, true, false},
		{"a hole", memwal.ErrHole, testRound(faulty, truncating), excuse{killed: true, stalled: true}, true, true, false},
		{"memory", memwal.ErrBackpressure, testRound(faulty), excuse{}, true, true, false},
	} {
		r := tc.round
		tc.x.claim, tc.x.seal = r.claims.begin(), r.seals.now()
		if tc.rival {
			r.claims.begin()
		}
		if tc.sealed {
			r.seals.begin()
		}
		if err := r.explain("call", tc.err, tc.x); (err == nil) != tc.explained {
			t.Errorf("%s: got %v", tc.name, err)
		} else if err != nil && !strings.Contains(err.Error(), tc.err.Error()) {
			t.Errorf("%s: %v does not say what happened", tc.name, err)
		}
	}
}

// A rival explains from before it begins to after it has ended, and for ever if
// it failed.
func TestRivals(t *testing.T) {
	var r rivals
	own := r.begin()
	if r.since(own) {
		t.Error("a call is its own rival")
	}
	r.end(nil)
	if r.since(r.now()) || r.since(own) {
		t.Error("a call that has ended well is a rival")
	}
	before := r.now()
	r.begin()
	during := r.now()
	r.end(nil)
	if !r.since(before) || !r.since(during) || r.since(r.now()) {
		t.Error("a rival explains the wrong time")
	}
	r.begin()
	r.end(context.Canceled)
	if !r.since(r.now()) {
		t.Error("a request of a call that failed may land at any time")
	}
}

// Rows are functions of the seed: the same again, different for another one, of
// all kinds.
func TestWorkload(t *testing.T) {
	w := workload{seed: 1, keyed: true}
	var dead, hot, null, same int
	for seq := range uint64(4000) {
		r := w.row(3, seq)
		if r != w.row(3, seq) || r.n != number(3, seq) || !r.dead && r.key >= 0 && r.key != r.n {
			t.Fatalf("row %d is %+v", seq, r)
		}
		if r.dead {
			dead++
		}
		if r.key < 0 {
			hot++
		}
		if _, ok := w.text(r.n); !ok {
			null++
		}
		if r == (workload{seed: 2, keyed: true}).row(3, seq) {
			same++
		}
		if u := (workload{seed: 1}).row(3, seq); u.dead || u.key != u.n {
			t.Fatalf("row %d without a primary key is %+v", seq, u)
		}
	}
	for what, n := range map[string]int{"deletes": dead, "shared keys": hot, "nulls": null, "rows that another seed has, too": same} {
		if n < 100 || n > 3000 {
			t.Errorf("%d of 4000: %s", n, what)
		}
	}
	for seq, batches := uint64(0), 0; batches < 100; batches++ {
		rec, dead := w.batch(3, seq, 20)
		if n := rec.NumRows(); n < 1 || n > 20 {
			t.Fatalf("a batch of %d rows", n)
		}
		for range rec.NumRows() {
			if w.row(3, seq).dead != dead {
				t.Fatalf("row %d is in a batch of the wrong kind", seq)
			}
			seq++
		}
		rec.Release()
	}
}
