package words

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// A vocabulary is always the same, has no word twice, and texts have as many words
// as asked for, each as often as its rank says.
func TestVocabulary(t *testing.T) {
	const n = 3000
	v, again := New(n), New(n)
	rank := map[string]int{}
	share := 0.0
	for i := range v.Len() {
		w := v.At(i)
		if _, twice := rank[w]; twice || w != again.At(i) || strings.ToLower(w) != w || len(w) < 4 {
			t.Fatalf("word %d is %q and then %q", i, w, again.At(i))
		}
		rank[w] = i
		share += v.Share(i)
	}
	if v.Len() != n || math.Abs(share-1) > 1e-9 {
		t.Errorf("%d words, shares of %v", v.Len(), share)
	}
	const texts, words = 5000, 20
	count := make([]float64, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for range texts {
		text := strings.Fields(string(v.AppendText(nil, rng, words)))
		if len(text) != words {
			t.Fatalf("%d words: %q", len(text), text)
		}
		for _, w := range text {
			count[rank[w]]++
		}
	}
	for _, r := range []int{0, 1, 10, 30} {
		want := v.Share(r) * texts * words
		if math.Abs(count[r]-want) > 6*math.Sqrt(want) {
			t.Errorf("the word of rank %d came %.0f times, expected %.0f", r, count[r], want)
		}
	}
}
