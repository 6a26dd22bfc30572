package faultstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// filled returns a store of n objects, "k/00" and so on.
func filled(t *testing.T, seed uint64, n int) *faultstore.Store {
	t.Helper()
	s := faultstore.New(objstore.NewMemory(), seed)
	for i := range n {
		if err := put(t, s, fmt.Sprintf("k/%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// keysOf lists.
func keysOf(t *testing.T, s objstore.Store) (keys []string, failed error) {
	t.Helper()
	for o, err := range s.List(t.Context(), "k/") {
		if err != nil {
			return keys, err
		}
		if o.Size != body.Len() || o.Modified.IsZero() {
			t.Errorf("listed: %+v", o)
		}
		keys = append(keys, o.Key)
	}
	return keys, nil
}

// distinct returns the keys in order, each once.
func distinct(keys []string) []string { return slices.Compact(slices.Sorted(slices.Values(keys))) }

func injected(t *testing.T, s *faultstore.Store, want map[faultstore.Fault]int) {
	t.Helper()
	if got := s.Injected(); !maps.Equal(got, want) {
		t.Errorf("injected %v, want %v", got, want)
	}
}

func TestShuffledListing(t *testing.T) {
	list := func(seed uint64) (orders [][]string) {
		s := filled(t, seed, 40)
		s.Add(faultstore.Rule{Count: 3, Shuffle: true})
		for range 3 {
			keys, err := keysOf(t, s)
			if err != nil {
				t.Fatal(err)
			}
			if d := distinct(keys); len(d) != 40 || len(keys) < 44 || len(keys) > 60 {
				t.Errorf("%d objects, %d distinct ones, want 40 and some of them twice", len(keys), len(d))
			}
			if slices.IsSorted(keys) {
				t.Error("the listing is in order")
			}
			orders = append(orders, keys)
		}
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultUnorderedList: 3, faultstore.FaultDoubledList: 3})
		if keys, _ := keysOf(t, s); len(keys) != 40 || !slices.IsSorted(keys) {
			t.Errorf("after the rule: %q", keys)
		}
		return orders
	}
	a, again, b := list(1), list(1), list(2)
	if !slices.EqualFunc(a, again, slices.Equal) || slices.Equal(a[0], b[0]) || slices.Equal(a[0], a[1]) {
		t.Error("the order is not a function of the seed and of how many listings came before")
	}
}

// TestShuffleCounts: a listing that came in order after all, or without doubles,
// does not count, nor does what nobody saw.
func TestShuffleCounts(t *testing.T) {
	for n := range 4 {
		s := filled(t, 1, n)
		s.Add(faultstore.Rule{Count: -1, Shuffle: true})
		want := map[faultstore.Fault]int{}
		for range 60 {
			keys, err := keysOf(t, s)
			if err != nil {
				t.Fatal(err)
			}
			var once []string
			for _, k := range keys {
				if !slices.Contains(once, k) {
					once = append(once, k)
				}
			}
			if len(once) < len(keys) {
				want[faultstore.FaultDoubledList]++
			}
			if !slices.IsSorted(once) {
				want[faultstore.FaultUnorderedList]++
			}
		}
		injected(t, s, want)
		if n == 3 && (want[faultstore.FaultDoubledList] < 10 || want[faultstore.FaultUnorderedList] < 30 || want[faultstore.FaultUnorderedList] > 58) {
			t.Errorf("of 60 listings: %v", want)
		}
	}
	s := filled(t, 1, 40)
	s.Add(faultstore.Rule{Count: -1, Shuffle: true})
	for range 100 {
		for range s.List(t.Context(), "k/") {
			break
		}
	}
	if got := s.Injected(); got[faultstore.FaultDoubledList] != 0 || got[faultstore.FaultUnorderedList] > 99 {
		t.Errorf("of 100 listings that were left after one object: %v", got)
	}
	s = filled(t, 1, 0)
	s.Add(faultstore.Rule{Count: -1, Shuffle: true, Drop: 1, Truncate: 1})
	if keys, err := keysOf(t, s); len(keys) != 0 || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
	injected(t, s, nil)
}

func TestShortListing(t *testing.T) {
	list := func(objects int) [][]string {
		s := filled(t, 5, 100)
		if objects < 100 {
			if err := s.Inner().Delete(t.Context(), "k/00"); err != nil {
				t.Fatal(err)
			}
		}
		s.Add(faultstore.Rule{Count: -1, Drop: 0.25})
		var all [][]string
		for range 4 {
			keys, err := keysOf(t, s)
			if err != nil || !slices.IsSorted(keys) || len(keys) >= objects {
				t.Errorf("%q, %v", keys, err)
			}
			all = append(all, keys)
		}
		injected(t, s, map[faultstore.Fault]int{faultstore.FaultShortList: 4})
		return all
	}
	left := 0
	more, fewer := list(100), list(99)
	for i, keys := range more {
		left += len(keys)
		if other := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "k/00" }); !slices.Equal(other, fewer[i]) {
			t.Errorf("one object more changed what happened to the others: %q, %q", keys, fewer[i])
		}
	}
	if left < 260 || left > 340 {
		t.Errorf("%d of 400 objects were listed, want about 300", left)
	}
	s := filled(t, 5, 4)
	s.Add(faultstore.Rule{Count: -1, Drop: 1})
	if keys, err := keysOf(t, s); len(keys) != 0 || err != nil {
		t.Errorf("%q, %v", keys, err)
	}
}

func TestTruncatedListing(t *testing.T) {
	s := filled(t, 1, 10)
	for cut, want := range map[int]int{1: 9, 4: 6, 10: 0, 1 << 40: 0} {
		remove := s.Add(faultstore.Rule{Count: -1, Truncate: cut})
		if keys, err := keysOf(t, s); len(keys) != want || err != nil || want > 0 && keys[want-1] != fmt.Sprintf("k/%02d", want-1) {
			t.Errorf("the last %d cut off: %q, %v", cut, keys, err)
		}
		remove()
	}
	injected(t, s, map[faultstore.Fault]int{faultstore.FaultTruncatedList: 4})

	// A listing that fails is not cut: its caller knows anyway.
	failing := faultstore.New(filled(t, 1, 10), 1)
	failing.Add(faultstore.Rule{Count: -1, Truncate: 3})
	failing.Add(faultstore.Rule{Count: -1, Shuffle: true})
	boom := errors.New("boom")
	failing.Inner().(*faultstore.Store).Add(faultstore.Rule{Count: -1, After: boom})
	if keys, err := keysOf(t, failing); len(distinct(keys)) != 10 || !errors.Is(err, boom) {
		t.Errorf("%q, %v", keys, err)
	}
	if n := failing.Injected()[faultstore.FaultTruncatedList]; n != 0 {
		t.Errorf("%d cut", n)
	}

	// Nor does one count that its consumer leaves before the end.
	s.Add(faultstore.Rule{Truncate: 3})
	for range s.List(t.Context(), "k/") {
		break
	}
	injected(t, s, map[faultstore.Fault]int{faultstore.FaultTruncatedList: 4})
}
