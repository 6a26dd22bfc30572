package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// testTerms is an empty dictionary.
func testTerms(t testing.TB) *terms {
	s := mustBind(t, textSchema(false, false), nil, Text{Name: "body", Column: Column{Name: "body"}})
	d := new(terms)
	d.init(s.hashBytes)
	return d
}

func listed(d *terms, from string) (out []string) {
	for c := d.list(from); ; {
		w, ok := c.word()
		if !ok {
			return out
		}
		if c.term().text() != w || d.find([]byte(w)) != c.term() {
			panic(w)
		}
		out = append(out, w)
		if err := c.next(); err != nil {
			panic(err)
		}
	}
}

// TestTermsInOrder: however many terms come between two readers, and whatever they
// are, the dictionary is in order and whole, from any text on; and it has few runs.
func TestTermsInOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(71, seed))
		d := testTerms(t)
		var want []string
		for d.count.Load() < 3000 {
			for range pick(r, 1, 1, 2, 10, 300) {
				w := fmt.Sprintf(pick(r, "%d", "w%05d", "\xff%d", "é%d"), r.IntN(1500))
				switch r.IntN(40) {
				case 0:
					w = ""
				case 1:
					w = strings.Repeat("x", r.IntN(MaxTermBytes+1))
				}
				if i, ok := slices.BinarySearch(want, w); !ok {
					want = slices.Insert(want, i, w)
				}
				if _, err := d.intern([]byte(w)); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(3) == 0 {
				continue
			}
			from := pick(r, "", want[r.IntN(len(want))], "w", "x", "\xff\xff", fmt.Sprint(r.IntN(1500)))
			i, _ := slices.BinarySearch(want, from)
			if got := listed(d, from); !slices.Equal(got, want[i:]) {
				t.Fatalf("seed %d: from %q: %d terms, want %d", seed, from, len(got), len(want)-i)
			}
			runs := d.order.Load().runs
			for i := range runs[1:] {
				if len(runs[i]) < runFactor*len(runs[i+1]) {
					t.Fatalf("run %d of %d terms is followed by one of %d", i, len(runs[i]), len(runs[i+1]))
				}
			}
		}
	}
}
