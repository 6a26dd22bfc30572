package index

// fuzzy tells how many characters two words are apart: inserted, left out, put in the
// place of another, or swapped with their neighbour. It is what bleve's own index
// takes for the distance; the one that bleve falls back on counts bytes.
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
	above2, above, row := f.rows[0], f.rows[1], f.rows[2]
	for j := range above {
		above[j] = j
	}
	for i, c := range f.text {
		row[0] = i + 1
		least := row[0]
		for j, w := range f.word {
			d := above[j]
			if c != w {
				d++
			}
			d = min(d, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && c == f.word[j-1] && f.text[i-1] == w {
				d = min(d, above2[j-1]+1)
			}
			row[j+1] = d
			least = min(least, d)
		}
		if least > f.most && i+1 < len(f.text) && minOf(above) > f.most {
			return false, 0
		}
		above2, above, row = above, row, above2
	}
	d := above[len(f.word)]
	return d <= f.most, uint8(min(d, 255))
}

func minOf(row []int) int {
	least := row[0]
	for _, d := range row {
		least = min(least, d)
	}
	return least
}
