package faultstore

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/memwal/memwal-go/objstore"
)

// TestHash: a seed means the same in every version.
func TestHash(t *testing.T) {
	for _, k := range []opKey{{objstore.OpGet, ""}, {objstore.OpPutIfAbsent, "wal/ü\x00/1"}} {
		for _, nth := range []uint64{0, 1, 12, 1<<64 - 1} {
			h := fnv.New64a()
			fmt.Fprintf(h, "%s\x00%s\x00%d", k.op, k.key, nth)
			if got := hashNth(k.hash(), nth); got != h.Sum64() {
				t.Errorf("%v, %d: %x, want %x", k, nth, got, h.Sum64())
			}
		}
	}
}

// TestTallyIsBounded, and counts exactly what it has room for.
func TestTallyIsBounded(t *testing.T) {
	var ty tally
	key := func(i int) uint64 { return mix(uint64(i)) }
	for round := range uint64(3) {
		for i := range tallySize {
			if got := ty.next(key(i)); got != round+1 {
				t.Fatalf("key %d in round %d: %d", i, round, got)
			}
		}
	}
	for i := range 5 * tallySize {
		ty.next(key(tallySize + i))
		if i%1000 == 0 && ty.next(key(0)) == 1 {
			t.Fatalf("a key in use was forgotten after %d others", i)
		}
		if n := len(ty.young) + len(ty.old); n > 2*tallySize {
			t.Fatalf("remembers %d", n)
		}
	}
	if got := ty.next(key(1)); got != 1 {
		t.Errorf("a key that is long gone is remembered: %d", got)
	}
}
