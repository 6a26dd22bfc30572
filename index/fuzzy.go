package index

// fuzzy tells how many characters two words are apart: inserted, left out, put in the
// place of another, or swapped with their neighbour. It is what bleve's own index
// takes for the distance; the one that bleve falls back on counts bytes.
//
// Words that are most apart at most have their characters near the same places, so that
// only a band of the table of distances is filled: time grows with the length of the
// words, not with its square.
type fuzzy struct {
	word []rune
	most int
	rows [3][]int // scratch
	text []rune
}

func newFuzzy(word string, most int) *fuzzy {
	f := &fuzzy{word: []rune(word), most: most}
	for i := range f.rows {
		f.rows[i] = make([]int, len(f.word)+1)
	}
	return f
}

// MatchAndDistance implements blevindex.FuzzyAutomaton. It is for one goroutine.
func (f *fuzzy) MatchAndDistance(text string) (bool, uint8) {
	f.text = f.text[:0]
	for _, c := range text {
		if f.text = append(f.text, c); len(f.text) > len(f.word)+f.most {
			return false, 0
		}
	}
	if len(f.text) < len(f.word)-f.most {
		return false, 0
	}
	far := f.most + 1 // or farther
	above2, above, row := f.rows[0], f.rows[1], f.rows[2]
	for j := range above {
		above[j], above2[j] = j, far
	}
	aboveLeast := 0
	for i, c := range f.text {
		// Outside of the band, both here and above, is far.
		first, last := max(0, i-f.most), min(len(f.word), i+1+f.most)
		least := far
		if row[first] = far; first == 0 {
			row[0], least = i+1, i+1
		}
		for j := first; j < last; j++ {
			d := above[j]
			if c != f.word[j] {
				d++
			}
			if j+1 < i+1+f.most { // above has it
				d = min(d, above[j+1]+1)
			}
			d = min(d, row[j]+1)
			if i > 0 && j > 0 && c == f.word[j-1] && f.text[i-1] == f.word[j] {
				d = min(d, above2[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		// A swap reaches over one row.
		if least > f.most && aboveLeast > f.most {
			return false, 0
		}
		aboveLeast = least
		above2, above, row = above, row, above2
	}
	d := above[len(f.word)]
	return d <= f.most, uint8(min(d, 255))
}
