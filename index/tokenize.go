package index

import (
	"slices"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/token/lowercase"
	"github.com/blevesearch/bleve/v2/analysis/tokenizer/character"
	bleveunicode "github.com/blevesearch/bleve/v2/analysis/tokenizer/unicode"
	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/segment"
)

// Analyzing is most of the work of indexing a text, and most of that is finding the
// words: bleve's tokenizers run a state machine over every byte, and allocate tokens
// for each text. The writer of an index has tokenizers of its own in their place. They
// give the very same tokens (FuzzTokenize), find words of ASCII themselves, and use
// their tokens again for the next text. Queries keep bleve's: many may run at once.

// MaxTermBytes is the length of the longest term. Longer words are no terms: they take
// a place in the text, but are not found and do not count. Nobody searches for them,
// some of bleve's stemmers take time in proportion to the square of the length (three
// seconds for a word of 128 KiB in French), and each would stay in memory. Lucene has
// 32 KiB, which would still let such a stemmer take minutes over a batch.
const MaxTermBytes = 8 << 10

// shortWords is a tokenizer without the words of more than MaxTermBytes, which are to
// reach no stemmer. All texts and queries go through it, or through the writer's.
type shortWords struct{ analysis.Tokenizer }

// Tokenize implements analysis.Tokenizer.
func (s shortWords) Tokenize(text []byte) analysis.TokenStream {
	return slices.DeleteFunc(s.Tokenizer.Tokenize(text), func(t *analysis.Token) bool { return len(t.Term) > MaxTermBytes })
}

// withShortWords is an analyzer with a tokenizer of shortWords.
func withShortWords(a analysis.Analyzer) analysis.Analyzer {
	d, ok := a.(*analysis.DefaultAnalyzer)
	if !ok {
		return a
	}
	short := *d // queries may be using it
	short.Tokenizer = shortWords{d.Tokenizer}
	return &short
}

// shortMapping is what queries take their analyzers from.
type shortMapping struct{ *mapping.IndexMappingImpl }

// AnalyzerNamed implements mapping.IndexMapping.
func (m shortMapping) AnalyzerNamed(name string) analysis.Analyzer {
	return withShortWords(m.IndexMappingImpl.AnalyzerNamed(name))
}

// writerAnalyzer gives what bleve's analyzer gives, for one goroutine. Tokens are valid
// until the next call.
type writerAnalyzer struct {
	analysis.Analyzer
	tokens *tokenStore // of a tokenizer of ours; unused where it is bleve's, as for "web"; nil: so is all of it
}

func newWriterAnalyzer(a analysis.Analyzer) writerAnalyzer {
	d, ok := a.(*analysis.DefaultAnalyzer)
	if !ok {
		return writerAnalyzer{Analyzer: a}
	}
	fast, tokens := *d, new(tokenStore)
	inner := d.Tokenizer
	if s, ok := inner.(shortWords); ok {
		inner = s.Tokenizer
	}
	switch inner.(type) {
	case *bleveunicode.UnicodeTokenizer:
		fast.Tokenizer = &wordTokenizer{tokens}
	case *character.CharacterTokenizer:
		if isLetters(inner) {
			fast.Tokenizer = &letterTokenizer{tokens}
		}
	}
	fast.TokenFilters = make([]analysis.TokenFilter, len(d.TokenFilters))
	for i, f := range d.TokenFilters {
		if l, ok := f.(*lowercase.LowerCaseFilter); ok {
			f = &lowerFilter{other: l}
		}
		fast.TokenFilters[i] = f
	}
	return writerAnalyzer{&fast, tokens}
}

// bytes is what it keeps for the next text.
func (w writerAnalyzer) bytes() int64 {
	if w.tokens == nil {
		return 0
	}
	return w.tokens.bytes()
}

// trim drops what an unusually long text has left.
func (w writerAnalyzer) trim() {
	if w.tokens != nil && len(w.tokens.chunks)*tokenChunk > tokensKept {
		*w.tokens = tokenStore{}
	}
}

// isLetters tells bleve's tokenizer of letters from others of its type, which do not
// tell what they split at.
func isLetters(t analysis.Tokenizer) bool {
	tokens := t.Tokenize([]byte("a1ß_b c"))
	return len(tokens) == 4 && string(tokens[1].Term) == "ß"
}

// tokenStore has the tokens of one text. They are in chunks that do not move, since
// streams are pointers to them.
type tokenStore struct {
	chunks [][]analysis.Token
	used   int
	stream analysis.TokenStream
	words  int // in the text so far
}

const (
	tokenChunk = 64
	// tokensKept is how many tokens are kept for the next batch.
	tokensKept = 16 * tokenChunk
)

func (s *tokenStore) reset() {
	s.used, s.stream, s.words = 0, s.stream[:0], 0
}

func (s *tokenStore) bytes() int64 {
	return int64(len(s.chunks))*tokenChunk*int64(unsafe.Sizeof(analysis.Token{})) +
		int64(cap(s.chunks))*int64(unsafe.Sizeof(s.chunks[0])) + int64(cap(s.stream))*8
}

func (s *tokenStore) add(text []byte, start, end int, typ analysis.TokenType) {
	s.words++
	if end-start > MaxTermBytes {
		return
	}
	if s.used == len(s.chunks)*tokenChunk {
		s.chunks = append(s.chunks, make([]analysis.Token, tokenChunk))
	}
	t := &s.chunks[s.used/tokenChunk][s.used%tokenChunk]
	s.used++
	*t = analysis.Token{Term: text[start:end], Start: start, End: end, Position: s.words, Type: typ}
	s.stream = append(s.stream, t)
}

// wordTokenizer is bleve's "unicode": it splits at the word boundaries of Unicode
// Standard Annex #29, as the package segment has them.
//
// It finds a word itself if letters, or digits, of ASCII alone make it, and what comes
// behind is ASCII, so that the rules about characters that extend others do not
// apply. All else it leaves to segment, word by word, which starts anew at each.
type wordTokenizer struct{ *tokenStore }

// Tokenize implements analysis.Tokenizer.
func (w *wordTokenizer) Tokenize(text []byte) analysis.TokenStream {
	w.reset()
	for at := 0; at < len(text); {
		c := classes[text[at]]
		switch {
		case c&(classLetter|classDigit) != 0:
			if end, ok := asciiWord(text, at, c); ok {
				typ := analysis.AlphaNumeric
				if c == classDigit {
					typ = analysis.Numeric
				}
				w.add(text, at, end, typ)
				at = end
				continue
			}
		case c != classOther && c&classMid == 0:
			// Beyond ASCII, or an underscore.
		case at+1 == len(text) || text[at+1] < utf8.RuneSelf:
			at++
			continue
		}
		n, word, typ, err := segment.SegmentWords(text[at:], true)
		if err != nil || word == nil {
			break // as bleve does: it leaves out what comes behind
		}
		if typ != segment.None {
			w.add(text, at, at+len(word), tokenType(typ))
		}
		at += n
	}
	return w.stream
}

func tokenType(typ int) analysis.TokenType {
	switch typ {
	case segment.Ideo, segment.Kana:
		return analysis.Ideographic
	case segment.Number:
		return analysis.Numeric
	}
	return analysis.AlphaNumeric
}

// asciiWord is the end of the word that begins at from with a character of a class,
// if it can tell.
func asciiWord(text []byte, from int, class uint8) (end int, ok bool) {
	joins := class << classJoins
	for at := from + 1; ; at++ {
		for at < len(text) && classes[text[at]] == class {
			at++
		}
		if at == len(text) {
			return at, true
		}
		c := classes[text[at]]
		if c == classOther {
			return at, true
		}
		if c&classMid == 0 {
			return 0, false
		}
		// It joins two letters, or two digits, but nothing else: WB6, WB7, WB11, WB12.
		if at+1 == len(text) {
			return at, true
		}
		switch next := classes[text[at+1]]; {
		case next == class && c&joins != 0:
			at++
		case next == classBeyond:
			return 0, false
		default:
			return at, true
		}
	}
}

const (
	classLetter = 1 << iota
	classDigit
	joinsLetters // classLetter<<classJoins
	joinsDigits
	classUnderscore
	classBeyond // ASCII

	classOther = 0
	classMid   = joinsLetters | joinsDigits
	classJoins = 2
)

// classes are the word break properties of ASCII, of
// https://www.unicode.org/Public/8.0.0/ucd/auxiliary/WordBreakProperty.txt.
var classes = func() (c [256]uint8) {
	for i := range c {
		switch {
		case i >= utf8.RuneSelf:
			c[i] = classBeyond
		case 'a' <= i|0x20 && i|0x20 <= 'z':
			c[i] = classLetter
		case '0' <= i && i <= '9':
			c[i] = classDigit
		case i == '_':
			c[i] = classUnderscore
		case i == ':':
			c[i] = joinsLetters
		case i == ',' || i == ';':
			c[i] = joinsDigits
		case i == '.' || i == '\'':
			c[i] = joinsLetters | joinsDigits
		}
	}
	return c
}()

// letterTokenizer is bleve's "letter": words are runs of letters. It ends at what is
// not valid UTF-8, and at U+FFFD.
type letterTokenizer struct{ *tokenStore }

// Tokenize implements analysis.Tokenizer.
func (l *letterTokenizer) Tokenize(text []byte) analysis.TokenStream {
	l.reset()
	start, at := 0, 0
	for at < len(text) {
		c, n := rune(text[at]), 1
		letter := classes[text[at]] == classLetter
		if c >= utf8.RuneSelf {
			if c, n = utf8.DecodeRune(text[at:]); c == utf8.RuneError {
				break
			}
			letter = unicode.IsLetter(c)
		}
		if !letter {
			if at > start {
				l.add(text, start, at, analysis.AlphaNumeric)
			}
			start = at + n
		}
		at += n
	}
	if at > start {
		l.add(text, start, at, analysis.AlphaNumeric)
	}
	return l.stream
}

// lowerFilter is bleve's "to_lower". It does what is ASCII itself.
type lowerFilter struct {
	other *lowercase.LowerCaseFilter
	one   [1]*analysis.Token
}

// Filter implements analysis.TokenFilter.
func (l *lowerFilter) Filter(tokens analysis.TokenStream) analysis.TokenStream {
	for _, t := range tokens {
		if !lowerASCII(t.Term) {
			l.one[0] = t
			l.other.Filter(l.one[:])
		}
	}
	return tokens
}

// lowerASCII changes upper case to lower, up to what is no ASCII, if there is such.
func lowerASCII(s []byte) bool {
	for i, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
		if 'A' <= c && c <= 'Z' {
			s[i] = c + 'a' - 'A'
		}
	}
	return true
}
