package filter

import (
	"math/bits"
	"slices"
)

// wordSet tells whether a word is one of some.
//
// Where the words lie close together it is a bitmap. Else it is a hash table with open
// addressing, of which half the cells or more are free; a free cell holds the word
// free, which is a member and has no cell of its own: who looks for it comes to a free
// cell in the end, and who looks for another word knows that it has come to one.
type wordSet struct {
	low, span uint64 // of the words, as low and low + span
	bitmap    []uint64

	cells []uint64
	shift int
	free  uint64
}

// bitmapSpan is up to what distance of the lowest and the highest word there is a bitmap:
// it has 8 KiB then.
const bitmapSpan = 1 << 16

// newWordSet makes a set of words in rising order, of which there is at least one.
func newWordSet(words []uint64) *wordSet {
	s := &wordSet{low: words[0], span: words[len(words)-1] - words[0]}
	if s.span < bitmapSpan {
		s.bitmap = make([]uint64, s.span/64+1)
		for _, w := range words {
			s.bitmap[(w-s.low)/64] |= 1 << ((w - s.low) % 64)
		}
		return s
	}
	size := bits.Len(uint(len(words))) + 1
	s.shift, s.free = 64-size, words[0]
	s.cells = slices.Repeat([]uint64{s.free}, 1<<size)
	for _, w := range words[1:] {
		at := s.home(w)
		for s.cells[at] != s.free {
			at = (at + 1) % uint64(len(s.cells))
		}
		s.cells[at] = w
	}
	return s
}

// home spreads words by Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
func (s *wordSet) home(w uint64) uint64 { return w * 0x9e3779b97f4a7c15 >> s.shift }

func (s *wordSet) has(w uint64) bool {
	if w-s.low > s.span {
		return false
	}
	if s.bitmap != nil {
		return s.bitmap[(w-s.low)/64]>>((w-s.low)%64)&1 != 0
	}
	for at := s.home(w); ; at = (at + 1) % uint64(len(s.cells)) {
		switch s.cells[at] {
		case w:
			return true
		case s.free:
			return false
		}
	}
}
