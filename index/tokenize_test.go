package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/analysis"
	blevindex "github.com/blevesearch/bleve_index_api"
)

// sameTokens compares what the writer's analyzer makes of a text with what bleve's
// makes. Both get copies: analyzers change their input.
func sameTokens(a, fast analysis.Analyzer, text string) error {
	want, got := a.Analyze([]byte(text)), fast.Analyze([]byte(text))
	if len(want) != len(got) {
		return fmt.Errorf("%q has %d tokens, want %d", text, len(got), len(want))
	}
	for i := range want {
		w, g := *want[i], *got[i]
		same := bytes.Equal(w.Term, g.Term)
		w.Term, g.Term = nil, nil
		if !same || !reflect.DeepEqual(w, g) {
			return fmt.Errorf("%q: token %d is %+v, want %+v", text, i, *got[i], *want[i])
		}
	}
	return nil
}

type analyzerPair struct {
	name    string
	a, fast analysis.Analyzer
}

func analyzerPairs(t testing.TB) []analyzerPair {
	var out []analyzerPair
	for _, name := range Analyzers() {
		s := mustBind(t, textSchema(false, false), nil, Text{Name: "body", Column: Column{Name: "body"}, Analyzer: name})
		a := s.kinds[0].(*textSpec).analyzer
		out = append(out, analyzerPair{name, a, newWriterAnalyzer(a)})
	}
	return out
}

// TestLongWordsReachNoStemmer: neither where a row is highlighted nor in a query, with the
// analyzer of the index or another. bleve's French stemmer takes half a minute for this one.
func TestLongWordsReachNoStemmer(t *testing.T) {
	long := strings.Repeat("mange", 400<<10/5)
	for _, p := range analyzerPairs(t) {
		start := time.Now()
		s := mustBind(t, textSchema(false, false), nil, Text{Name: "body", Column: Column{Name: "body"}, Analyzer: p.name}).kinds[0].(*textSpec)
		for what, tokens := range map[string]analysis.TokenStream{
			"text":             s.analyzed(long + " été"),
			"query":            s.mapping.AnalyzerNamed(p.name).Analyze([]byte(long + " été")),
			"another analyzer": s.mapping.AnalyzerNamed("fr").Analyze([]byte(long + " été")),
		} {
			for _, k := range tokens {
				if len(k.Term) > MaxTermBytes {
					t.Errorf("%s: %s: a term of %d bytes", p.name, what, len(k.Term))
				}
			}
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Fatalf("%s: it took %v", p.name, took)
		}
	}
}

// TestLongTermsAreNotHighlighted: what a filter of the analyzer makes longer than a term
// may be is none.
func TestLongTermsAreNotHighlighted(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	spec := *x.spec.kinds[0].(*textSpec)
	spec.analyzer = longer{}
	r := &rowReader{spec: &spec, places: make(map[string][]*blevindex.TermFieldVector)}
	r.add(0, "word")
	if len(r.places) != 1 || r.places["word"] == nil {
		t.Errorf("%d terms", len(r.places))
	}
}

// longer adds a long term to each text.
type longer struct{}

func (longer) Analyze(text []byte) analysis.TokenStream {
	return analysis.TokenStream{{Term: text, End: len(text), Position: 1}, {Term: bytes.Repeat([]byte("x"), MaxTermBytes+1), End: 1, Position: 2}}
}

// pieces are what the rules of word boundaries are about, and some of each script.
var pieces = strings.Split("a|b|Z|the|running|don't|1|23|4.5|_|__|.|,|;|:|'|\"|-| |  |\t|\r|\n|\r\n|\v|\f|\x00|\x7f|@|#|/|"+
	"é|É|ß|Σ|ΟΔΟΣ|Ⱥ|İ|ı|K|\u0301|\u00ad|\u200d|\u200b|\ufeff|\ufffd|\u2019|\u00b7|\u2024|\uff0c|א|'א|א\"א|ж|Ж|"+
	"東|京|か|カ|ー|ｶ|ﾞ|한|각|ไ|ท|ย|हि|न्दी|ا|ب|ـ|🙂|👨‍👩‍👧|🇩🇪|🇫|٣|²|½|\U00020000|\xff|\xc3|\xed\xa0\x80|\xf0\x9f|"+
	"http://a.b/c?d=e|x@y.de|C++|U.S.A.|3,141.59|a.1|1.a|1a|a1|a_1|_a|a_|'tis|rock'n'roll|a:b|a::b|1:2|1;2|a;b|a.b.c.|$1", "|")

func randomPieces(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		switch r.IntN(12) {
		case 0:
			b.WriteRune(rune(r.IntN(0x3000)))
		case 1:
			b.WriteByte(byte(r.IntN(256)))
		case 2:
			b.WriteByte(byte(r.IntN(128)))
		default:
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
	}
	return b.String()
}

// TestTokensAreBleves: the writer's tokenizers give what bleve's give, for all
// analyzers and pairs of what the rules are about, and for random mixtures.
func TestTokensAreBleves(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	for _, p := range analyzerPairs(t) {
		check := func(s string) {
			t.Helper()
			if err := sameTokens(p.a, p.fast, s); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
		main := p.name == "standard" || p.name == "simple"
		for _, a := range pieces {
			check(a)
			for _, b := range pieces {
				if main && !raceEnabled || r.IntN(20) == 0 {
					check("a" + a + b)
					check(a + "b" + b + "b")
				}
			}
		}
		for range map[bool]int{true: 5_000, false: 300}[main] {
			check(randomPieces(r, 1+r.IntN(8)))
		}
		check(randomPieces(r, 5000)) // more tokens than are kept
		check(strings.Repeat("x", MaxTermBytes) + " y")
	}
}

// FuzzTokenize: the same for any input.
func FuzzTokenize(f *testing.F) {
	for _, p := range pieces {
		f.Add(p + "a" + p + "1 " + p)
	}
	pairs := analyzerPairs(f)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > MaxTermBytes {
			t.Skip() // longer words are left out
		}
		for _, p := range pairs {
			if err := sameTokens(p.a, p.fast, s); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	})
}
