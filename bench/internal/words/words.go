// Package words makes up texts whose words are as frequent as those of a language:
// the word of rank k, from 0, comes in proportion to 1/(k+2.7) (Zipf's law as amended
// by Mandelbrot), and frequent words are short.
package words

import (
	"math/rand/v2"
	"sort"
)

// Vocabulary is the words of a made-up language. Immutable, safe for concurrent use.
type Vocabulary struct {
	words []string
	sums  []float64 // of the weights up to each word
}

// offset is Mandelbrot's: it flattens the curve at the most frequent words.
const offset = 2.7

// New returns n words, the most frequent one first, for the same n always the same.
func New(n int) *Vocabulary {
	rng := rand.New(rand.NewPCG(30, uint64(n)))
	v := &Vocabulary{words: make([]string, 0, n), sums: make([]float64, 0, n)}
	seen := make(map[string]bool, n)
	sum := 0.0
	for len(v.words) < n {
		w := word(rng, len(v.words))
		if seen[w] {
			continue
		}
		seen[w] = true
		v.words = append(v.words, w)
		sum += 1 / (float64(len(v.words)-1) + offset)
		v.sums = append(v.sums, sum)
	}
	return v
}

// word makes one of four to thirteen letters, consonants and vowels in turn. There are
// too many of them for a collision to be likely, and none is a stop word of English.
func word(rng *rand.Rand, rank int) string {
	n := 4 + rng.IntN(3)
	for r := rank; r > 8 && n < 12; r /= 8 {
		n += 1 + rng.IntN(2)
	}
	w := make([]byte, n)
	for i := range w {
		letters := "bdfgklmnprstvz"
		if i%2 == 1 {
			letters = "aeiou"
		}
		w[i] = letters[rng.IntN(len(letters))]
	}
	return string(w)
}

// Len is the number of words.
func (v *Vocabulary) Len() int { return len(v.words) }

// At is the word of a rank.
func (v *Vocabulary) At(rank int) string { return v.words[rank] }

// Share is the part of all words of a text that the word of a rank has on average.
func (v *Vocabulary) Share(rank int) float64 {
	return 1 / (float64(rank) + offset) / v.sums[len(v.sums)-1]
}

// Draw returns a word at random, frequent ones more often.
func (v *Vocabulary) Draw(rng *rand.Rand) string {
	return v.words[sort.SearchFloat64s(v.sums, rng.Float64()*v.sums[len(v.sums)-1])]
}

// AppendText appends a text of n words to b. One blank is between two of them.
func (v *Vocabulary) AppendText(b []byte, rng *rand.Rand, n int) []byte {
	for i := range n {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, v.Draw(rng)...)
	}
	return b
}
