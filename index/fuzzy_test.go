package index

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// distance is the whole table, as it is defined.
func distance(a, b []rune) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// TestFuzzyDistance: the band gives what the table gives, as far as it is near.
func TestFuzzyDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	random := func() []rune {
		w := make([]rune, r.IntN(9))
		for i := range w {
			w[i] = pick(r, 'a', 'b', 'c', 'é')
		}
		return w
	}
	near := 0
	for range 30_000 {
		a := random()
		f := newFuzzy(string(a), r.IntN(3))
		for range 3 { // one automaton takes many words
			b := random()
			if r.IntN(2) == 0 {
				b = append(b[:0:0], a...)
				for range r.IntN(3) {
					i := r.IntN(len(b) + 1)
					b = append(b[:i:i], append([]rune{pick(r, 'a', 'b')}, b[min(len(b), i+r.IntN(2)):]...)...)
				}
			}
			ok, got := f.MatchAndDistance(string(b))
			want := distance(a, b)
			if ok != (want <= f.most) || ok && int(got) != want {
				t.Fatalf("%q and %q within %d: %t %d, want %d", string(a), string(b), f.most, ok, got, want)
			}
			if ok {
				near++
			}
		}
	}
	if near < 10_000 {
		t.Errorf("only %d words were near: a poor test", near)
	}
}

// TestFuzzyLongWords: words of the length of a page are compared at once.
func TestFuzzyLongWords(t *testing.T) {
	w := strings.Repeat("abcdefghij", 10_000)
	start := time.Now()
	if ok, d := newFuzzy(w, 2).MatchAndDistance(w[:50_000] + "x" + w[50_001:] + "y"); !ok || d != 2 {
		t.Errorf("%t %d", ok, d)
	}
	// The table would have 10^10 cells.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}
