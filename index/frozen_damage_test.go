package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/search/query"

	"github.com/memwal/memwal-go/internal/pagefile"
)

var errGone = errors.New("the store is gone")

// frozenQueries ask for every structure of a frozen text index.
func frozenQueries() []query.Query {
	fuzzy := query.NewFuzzyQuery("alpha")
	fuzzy.SetFuzziness(1)
	both := query.NewMatchQuery("aaab zzzy")
	both.SetOperator(query.MatchQueryOperatorAnd)
	return []query.Query{
		both, query.NewMatchAllQuery(), query.NewTermQuery("alpha"), query.NewTermQuery("often"), query.NewPrefixQuery("b"), fuzzy,
		query.NewMatchPhraseQuery("alpha beta"), query.NewTermRangeQuery("a", "c"), query.NewWildcardQuery("*a"),
		query.NewBooleanQuery([]query.Query{query.NewTermQuery("alpha")}, nil, []query.Query{query.NewTermQuery("beta")}),
	}
}

// pagedTable is a table whose frozen index has several pages.
func pagedTable(t testing.TB) *textTable {
	r := rand.New(rand.NewPCG(101, 102))
	x := newTextTable(t, false, false, Text{Analyzer: "simple"})
	var docs []doc
	for i := range unlessRace(2000, 1300) {
		s := "often zzzy " + randomText(r, 8)
		if r.IntN(3) == 0 {
			s += " aaab" // at the other end of the dictionary
		}
		for range 14 {
			s += " " + string([]byte{byte('a' + r.IntN(26)), byte('a' + r.IntN(26)), byte('a' + r.IntN(26)), byte('a' + r.IntN(26))})
		}
		docs = append(docs, textDoc(int64(i), s))
	}
	x.put(docs...)
	return x
}

// TestFrozenFailingReads: a read that fails, returns less, or hangs until the caller
// leaves is an error of the search, whichever read it is, and never fewer hits. The
// index goes on afterwards.
func TestFrozenFailingReads(t *testing.T) {
	x := pagedTable(t)
	b := freeze(t, x.tabs[0].set, "body", func(slot uint32) (uint32, bool) { return slot, slot%5 > 0 })
	if len(b) < pagefile.PageBytes {
		t.Fatalf("only %d bytes", len(b))
	}
	src := &ranged{b: b}
	whole := []Part{{Frozen: &FrozenPart{Index: openFrozen(t, x.spec, "body", FrozenBytes(b), FrozenOptions{})}}}
	for _, q := range frozenQueries() {
		want, err := x.searchParts(q, 10_000, whole)
		if err != nil {
			t.Fatal(err)
		}
		fails, last := 0, 0
		for k := 0; ; k = max(k+1, k*5/4) {
			// A new index each time, so that nothing is in its cache.
			src.fail = nil
			f := openFrozen(t, x.spec, "body", src, small)
			parts := []Part{{Frozen: &FrozenPart{Index: f}}}
			for name, c := range map[string]struct {
				fail func(at, n int64) ([]byte, error)
				want error
			}{
				"fails":    {func(int64, int64) ([]byte, error) { return nil, errGone }, errGone},
				"is short": {func(at, n int64) ([]byte, error) { return b[at : at+n/2], nil }, ErrCorrupt},
				"hangs":    {func(int64, int64) ([]byte, error) { return nil, context.DeadlineExceeded }, context.DeadlineExceeded},
			} {
				n := 0
				src.fail = func(at, length int64) ([]byte, error) {
					if n++; n > k {
						return c.fail(at, length)
					}
					return nil, nil
				}
				got, err := x.searchParts(q, 10_000, parts)
				last = n
				switch {
				case n > k:
					fails++
					if !errors.Is(err, c.want) || errors.Is(err, ErrInvalid) {
						t.Fatalf("%s, read %d %s: %d hits, %v", describe(q), k, name, len(got), err)
					}
				case err != nil || same(got, want, 1e-9) != nil:
					t.Fatalf("%s: %d hits, %v; want %d", describe(q), len(got), err, len(want))
				}
				src.fail = nil
				if got, err := x.searchParts(q, 10_000, parts); err != nil || same(got, want, 1e-9) != nil {
					t.Fatalf("%s, after a read that %s: %d hits, %v", describe(q), name, len(got), err)
				}
			}
			if last <= k || k > unlessRace(40, 10) {
				break // that was every read
			}
		}
		if fails == 0 {
			t.Errorf("%s: nothing was read", describe(q))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	src.fail = func(int64, int64) ([]byte, error) { cancel(); return nil, nil }
	f := whole[0].Frozen.Index
	if f, _ = x.spec.OpenFrozen(t.Context(), "body", src, small); f == nil {
		t.Fatal("it does not open")
	}
	if _, err := x.spec.SearchText(ctx, "body", TextSearch{Query: query.NewMatchAllQuery(), Limit: 10}, Part{Frozen: &FrozenPart{Index: f}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// smallObjects are frozen indexes of a few rows, by the name of the index.
func smallObjects(t testing.TB) (*Spec, map[string][]byte) {
	sc := textSchema(true, false)
	spec := mustBind(t, sc, cols("id"), Text{Name: "text", Column: Column{Name: "body"}, Analyzer: "simple"},
		Text{Name: "bare", Column: Column{Name: "body"}, Analyzer: "simple", NoPositions: true}, Ordered{Name: "o", Columns: cols("body", "id")})
	f := newFixture(spec)
	x := &textTable{t: t, spec: spec, keyed: true}
	r := rand.New(rand.NewPCG(111, 112))
	var docs []doc
	for i := range 150 {
		s := "often"
		if i%12 == 0 {
			s += " " + pick(r, "alpha beta", "alpha", "beta alpha beta", "gamma", "")
		}
		docs = append(docs, doc{id: int64(i % 145), texts: []string{s}, dead: i == 7})
	}
	f.apply(t, x.batch(docs))
	out := map[string][]byte{}
	for name, row := range map[string]func(uint32) (uint32, bool){
		"text": func(slot uint32) (uint32, bool) { return 300 - slot, true }, "bare": identity, "o": identity,
	} {
		out[name] = freeze(t, f.set, name, row)
	}
	return spec, out
}

// answers are what an index answers, in words, up to the first error.
func answers(ctx context.Context, s *Spec, name string, src FrozenSource, o FrozenOptions) (string, error) {
	f, err := s.OpenFrozen(ctx, name, src, o)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if f.text == nil {
		for _, r := range []Range{{}, {Low: []any{"alpha"}, High: []any{"often alpha", int64(48)}, Reverse: true}, {High: []any{"often", nil}}} {
			seq, err := f.RangeKeys(ctx, r)
			if err != nil {
				return "", err
			}
			for e, err := range seq {
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, "%x %d ", e.Key, e.Slot)
			}
		}
		return b.String(), nil
	}
	for slot := range min(f.Slots(), 400) {
		row, ok, err := f.Row(ctx, slot)
		if err != nil {
			return "", err
		}
		fmt.Fprint(&b, row, ok)
	}
	for _, q := range frozenQueries() {
		hits, err := s.SearchText(ctx, name, TextSearch{Query: q, Limit: 1000}, Part{Frozen: &FrozenPart{Index: f}})
		if errors.Is(err, ErrInvalid) && f.text.cfg.NoPositions {
			continue // phrases
		}
		if err != nil {
			return "", err
		}
		fmt.Fprint(&b, hits)
	}
	return b.String(), nil
}

// TestFrozenFlippedBits: an index with a flipped bit, whichever it is, answers what it did
// before or reports the damage, and Verify finds it.
func TestFrozenFlippedBits(t *testing.T) {
	spec, objects := smallObjects(t)
	for name, b := range objects {
		want, err := answers(t.Context(), spec, name, FrozenBytes(b), FrozenOptions{})
		if err != nil || want == "" {
			t.Fatal(name, err)
		}
		bad := bytes.Clone(b)
		for bit := range len(b) * 8 {
			bad[bit/8] ^= 1 << (bit % 8)
			got, err := answers(t.Context(), spec, name, FrozenBytes(bad), small)
			if err == nil && got != want {
				t.Fatalf("%s, bit %d of byte %d: another answer", name, bit%8, bit/8)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("%s, bit %d of byte %d: %v", name, bit%8, bit/8, err)
			}
			if err == nil {
				f, err := spec.OpenFrozen(t.Context(), name, FrozenBytes(bad), small)
				if err == nil {
					err = f.Verify(t.Context())
				}
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("%s, bit %d of byte %d: %v", name, bit%8, bit/8, err)
				}
			}
			bad[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// reseal makes the checksums right again, so that damage gets behind them.
func reseal(b []byte) {
	const trailer = 32
	table := crc32.MakeTable(crc32.Castagnoli)
	if len(b) < trailer {
		return
	}
	end := b[len(b)-trailer:]
	le.PutUint64(end[8:], uint64(len(b)))
	body := le.Uint64(end)
	if body > uint64(len(b)-trailer) {
		return
	}
	pages := (int(body) + pagefile.PageBytes - 1) / pagefile.PageBytes
	sums := len(b) - trailer - 4*pages
	if sums < int(body) {
		return
	}
	for p := range pages {
		le.PutUint32(b[sums+4*p:], crc32.Checksum(b[p*pagefile.PageBytes:min((p+1)*pagefile.PageBytes, int(body))], table))
	}
	le.PutUint32(end[20:], crc32.Checksum(b[body:len(b)-trailer+20], table))
}

// TestFrozenDamageBehindChecksums: what only a faulty writer could have written is an
// error or an answer, never a panic and never endless.
func TestFrozenDamageBehindChecksums(t *testing.T) {
	spec, objects := smallObjects(t)
	r := rand.New(rand.NewPCG(121, 122))
	found := 0
	for name, b := range objects {
		for range unlessRace(700, 100) {
			bad := bytes.Clone(b)
			for range 1 + r.IntN(3) {
				bad[r.IntN(len(bad))] = pick(r, 0, 1, 0x7f, 0x80, 0xff, byte(r.Uint32()))
			}
			reseal(bad)
			start := time.Now()
			if _, err := answers(t.Context(), spec, name, FrozenBytes(bad), FrozenOptions{}); err != nil {
				found++
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Fatalf("%s: it took %v: %s", name, d, hex.EncodeToString(bad))
			}
		}
	}
	if found == 0 {
		t.Error("nothing was found: the damage does not get to where it hurts")
	}
}

// FuzzFrozen: any bytes as an index, with checksums that are right. Coverage differs from
// run to run, so -fuzzminimizetime 5x keeps it from minimising for ever.
func FuzzFrozen(f *testing.F) {
	spec, objects := smallObjects(f)
	for _, b := range objects {
		f.Add(b)
		f.Add(b[:len(b)-40])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		reseal(b)
		for name := range objects {
			_, _ = answers(t.Context(), spec, name, FrozenBytes(b), FrozenOptions{})
			_, _ = answers(t.Context(), spec, name, &ranged{b: b}, small)
		}
	})
}

// TestFrozenConcurrentSearches: many searches of one index, with a cache that is too
// small, beside a memtable that is written to and frozen.
func TestFrozenConcurrentSearches(t *testing.T) {
	x := pagedTable(t)
	b := freeze(t, x.tabs[0].set, "body", identity)
	x.rotate()
	for _, o := range []FrozenOptions{{}, {WholeBytes: 1, CacheBytes: 2 * pagefile.PageBytes}} {
		f := openFrozen(t, x.spec, "body", &ranged{b: b}, o)
		parts := []Part{{Frozen: &FrozenPart{Index: f}}}
		var want [][]found
		for _, q := range frozenQueries() {
			hits, err := x.searchParts(q, 50, parts)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, hits)
		}
		var wg sync.WaitGroup
		for g := range 3 {
			wg.Go(func() {
				for i := range 9 {
					k := (i + g*3) % len(want)
					got, err := x.searchParts(frozenQueries()[k], 50, parts)
					if err != nil || same(got, want[k], 1e-9) != nil {
						t.Errorf("query %d: %d hits, %v", k, len(got), err)
					}
					if f.Bytes() < 0 {
						t.Error("fewer bytes than none")
					}
				}
			})
		}
		wg.Go(func() {
			for i := range 20 {
				x.put(textDoc(int64(i), "alpha beta"))
				set := x.tabs[1].set
				if _, err := set.Freeze(t.Context(), "body", set.Applied(), identity, new(bytes.Buffer)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
	}
}

// TestFreezeIsCancelled: a freeze whose context ends, or whose writer fails, fails.
func TestFreezeIsCancelled(t *testing.T) {
	x := pagedTable(t)
	set := x.tabs[0].set
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := set.Freeze(ctx, "body", set.Applied(), identity, new(bytes.Buffer)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for n := range 3 {
		if _, err := set.Freeze(t.Context(), "body", set.Applied(), identity, &failingWriter{after: n}); !errors.Is(err, errGone) {
			t.Errorf("a writer that fails after %d writes: %v", n, err)
		}
	}
}

// countedContext counts how often it is asked whether it has ended.
type countedContext struct {
	context.Context
	asked int
}

func (c *countedContext) Err() error {
	c.asked++
	return c.Context.Err()
}

// TestFreezeEndsWithItsWriter: a freeze notices soon that nothing can be written any more,
// and not after it has gone through the whole index in vain.
func TestFreezeEndsWithItsWriter(t *testing.T) {
	sc, recs := int64Batches(t, 100_000, 20_000, false)
	f := newFixture(mustBind(t, sc, nil, Ordered{Name: "o", Columns: cols("id")}))
	for _, rec := range recs {
		f.apply(t, rec)
	}
	x := pagedTable(t)
	for name, c := range map[string]struct {
		set *Set
		row func(uint32) (uint32, bool)
	}{
		"o":    {f.set, identity},
		"body": {x.tabs[0].set, identity},
		// The file rows are written before the keys.
		"o, listed": {f.set, shuffle(100_000)},
	} {
		ctx, since := &countedContext{Context: t.Context()}, -1
		w := writerFunc(func(b []byte) (int, error) {
			since = ctx.asked
			return 0, errGone
		})
		index, _, _ := strings.Cut(name, ",")
		if _, err := c.set.Freeze(ctx, index, c.set.Applied(), c.row, w); !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
		if n := ctx.asked - since; since < 0 || n > 1 {
			t.Errorf("%s: it goes on for %d checks", name, n)
		}
	}
}

type writerFunc func(b []byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }

type failingWriter struct{ after int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, errGone
	}
	return len(b), nil
}

// TestFrozenWrongStructures: single numbers that only a faulty writer could have written
// are found where they are read.
func TestFrozenWrongStructures(t *testing.T) {
	x := newTextTable(t, false, false, Text{})
	for range 10 {
		x.put(textDoc(0, "word"))
	}
	b := freeze(t, x.tabs[0].set, "body", identity)
	f := openFrozen(t, x.spec, "body", FrozenBytes(b), FrozenOptions{})
	heads := f.file.Section(sectionPostings).Offset  // 1, then 3 nine times, then the places, 1 each
	block := f.file.Section(sectionEntries).Offset   // 0, 0, 4, "word", 10, 10, 10
	list := f.file.Section(sectionBlocks).Offset     // the bytes of the block, 0
	columns := f.file.Section(sectionLengths).Offset // ten times 1
	if b[heads+1] != 3 || b[block+7] != 10 || b[list] != 10 || b[columns] != 1 {
		t.Fatal("the object has another form")
	}
	for name, c := range map[string]struct {
		at    int64
		value byte
	}{
		"a slot twice":              {heads + 3, 0<<1 | 1},
		"a slot beyond the end":     {heads + 3, 50<<1 | 1},
		"the first slot beyond":     {heads, 60<<1 | 1},
		"a head too many":           {heads + 3, 1 << 1},
		"heads cut off":             {heads + 9, 0x80},
		"places cut off":            {heads + 19, 0x80},
		"postings beyond the end":   {block + 8, 100},
		"places beyond the end":     {block + 9, 100},
		"more rows than there are":  {block + 7, 11},
		"fewer rows than heads":     {block + 7, 9},
		"no rows":                   {block + 7, 0},
		"a base beyond the end":     {block, 100},
		"shared bytes of nothing":   {block + 1, 1},
		"a key beyond the block":    {block + 2, 100},
		"a block beyond the end":    {list, 100},
		"a block cut off":           {list, 9},
		"a separator beyond":        {list + 1, 100},
		"a list that is cut off":    {list + 1, 0x80},
		"a block without any entry": {list, 0},
	} {
		bad := bytes.Clone(b)
		bad[c.at] = c.value
		reseal(bad)
		for _, o := range []FrozenOptions{{}, small} {
			f := openFrozen(t, x.spec, "body", &ranged{b: bad}, o)
			hits, err := x.searchParts(query.NewMatchPhraseQuery("word word"), 10, []Part{{Frozen: &FrozenPart{Index: f}}})
			if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) {
				hits, err = x.searchParts(query.NewWildcardQuery("w*"), 10, []Part{{Frozen: &FrozenPart{Index: f}}})
			}
			if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %d hits, %v", name, len(hits), err)
			}
		}
	}
}

// TestFrozenBlocksAreBounded: a block whose keys have much in common does not become
// many times as large in memory.
func TestFrozenBlocksAreBounded(t *testing.T) {
	block := []byte{0, 0}
	block = binary.AppendUvarint(block, blockKeys/2)
	block = append(block, make([]byte, blockKeys/2)...)
	for range 2 {
		block = binary.AppendUvarint(block, blockKeys/2)
		block = append(block, 0)
	}
	for n, want := range map[int]bool{len(block) - 3: true, len(block): false} {
		var b bytes.Buffer
		w := pagefile.NewWriter(&b)
		w.Section(sectionEntries)
		w.Write(block[:n])
		if _, err := w.Close(nil); err != nil {
			t.Fatal(err)
		}
		file, err := pagefile.Open(t.Context(), FrozenBytes(b.Bytes()), FrozenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := &Frozen{file: file}
		s := file.Section(sectionEntries)
		if err := new(entries).load(t.Context(), f, blockRef{offset: s.Offset, length: s.Length}, 0); (err == nil) != want || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestFrozenReservedBytes: flags and bytes of the description that this version does not
// know are refused, since what they change of the meaning is not known.
func TestFrozenReservedBytes(t *testing.T) {
	spec, objects := smallObjects(t)
	for name, b := range objects {
		at := bytes.LastIndex(b, openFrozen(t, spec, name, FrozenBytes(b), FrozenOptions{}).file.Meta())
		if at < 0 {
			t.Fatal("the description is not there")
		}
		for byt := 4; byt < 8; byt++ {
			for bit := range 8 {
				if byt == 4 && bit == 0 {
					continue // positions
				}
				bad := bytes.Clone(b)
				bad[at+byt] ^= 1 << bit
				reseal(bad)
				if _, err := spec.OpenFrozen(t.Context(), name, FrozenBytes(bad), FrozenOptions{}); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: bit %d of byte %d: %v", name, bit, byt, err)
				}
			}
		}
	}
}

// TestFrozenSectionsOfOtherLength: of several sections that are too short, the same one is
// reported each time.
func TestFrozenSectionsOfOtherLength(t *testing.T) {
	spec, objects := smallObjects(t)
	b := objects["text"]
	body := int(le.Uint64(b[len(b)-32:]))
	for i := range int(le.Uint32(b[body:])) {
		if at := body + 8 + 24*i; le.Uint64(b[at:]) <= sectionLengths {
			b[at+16]--
		}
	}
	reseal(b)
	for range 30 {
		if _, err := spec.OpenFrozen(t.Context(), "text", FrozenBytes(b), FrozenOptions{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "section 1 has") {
			t.Fatal(err)
		}
	}
}
