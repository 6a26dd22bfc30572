package schema

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// countBuffers returns how many buffers a batch has, for the rounding to 64 bytes.
func countBuffers(d arrow.ArrayData) (n int64) {
	n = int64(len(d.Buffers()))
	for _, c := range d.Children() {
		n += countBuffers(c)
	}
	if dict := dictionaryOf(d); dict != nil {
		n += countBuffers(dict)
	}
	return n
}

func collectRoots(d arrow.ArrayData, into map[*memory.Buffer]bool) {
	for _, b := range d.Buffers() {
		for b != nil && b.Parent() != nil {
			b = b.Parent()
		}
		if b != nil && b.Cap() > 0 {
			into[b] = true
		}
	}
	for _, c := range d.Children() {
		collectRoots(c, into)
	}
	if dict := dictionaryOf(d); dict != nil {
		collectRoots(dict, into)
	}
}

func TestCompactOfEveryType(t *testing.T) {
	eachSample(t, func(t *testing.T, mem *memory.CheckedAllocator, arr arrow.Array) {
		rec := batch([]arrow.Field{opt("x", arr.DataType())}, arr)
		defer rec.Release()
		window, pinned := Size(rec)
		own := Compact(rec, mem)
		defer own.Release()
		if !array.Equal(arr, own.Column(0)) {
			t.Fatalf("copy differs:\n%v\n%v", arr, own.Column(0))
		}
		if err := array.ValidateFull(own.Column(0)); err != nil {
			t.Fatal(err)
		}
		if err := check(own.Column(0).Data(), arr.DataType(), 0, arr.Len()); err != nil {
			t.Fatal(err)
		}
		if runs, ok := own.Column(0).(*array.RunEndEncoded); ok && runs.Len() > 0 {
			ends := runs.RunEndsArr()
			if last := ends.ValueStr(ends.Len() - 1); last != strconv.Itoa(runs.Len()) {
				t.Fatalf("the last run ends at %s of %d", last, runs.Len())
			}
		}
		before, after := map[*memory.Buffer]bool{}, map[*memory.Buffer]bool{}
		collectRoots(arr.Data(), before)
		collectRoots(own.Column(0).Data(), after)
		for b := range after {
			if before[b] {
				t.Fatal("the copy shares a buffer")
			}
		}
		ownWindow, ownPinned := Size(own)
		slack := 64 * countBuffers(own.Column(0).Data())
		if ownWindow > window || window > ownWindow+64 {
			t.Fatalf("window %d, of the copy %d", window, ownWindow)
		}
		if ownPinned > ownWindow+slack || ownPinned < ownWindow-64 {
			t.Fatalf("copy pins %d for a window of %d", ownPinned, ownWindow)
		}
		var sum int64
		for b := range before {
			sum += int64(b.Cap())
		}
		if pinned != sum {
			t.Fatalf("pinned %d, distinct roots have %d", pinned, sum)
		}
	})
}

func TestM01_SliceCountsWhatItPins(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	b := array.NewStringBuilder(mem)
	defer b.Release()
	for range 10_000 {
		b.Append(strings.Repeat("x", 100))
	}
	arr := b.NewArray()
	defer arr.Release()
	whole := batch([]arrow.Field{opt("x", arr.DataType())}, arr)
	defer whole.Release()
	window, pinned := Size(whole)
	if window != 10_000*100+10_001*4 || pinned < window || NeedsCompact(window, pinned) {
		t.Fatalf("whole: window %d, pinned %d", window, pinned)
	}
	part := whole.NewSlice(5_000, 5_010)
	defer part.Release()
	partWindow, partPinned := Size(part)
	if partWindow != 10*100+11*4 || partPinned != pinned {
		t.Fatalf("slice: window %d, pinned %d of %d", partWindow, partPinned, pinned)
	}
	if !NeedsCompact(partWindow, partPinned) {
		t.Fatal("the slice should be copied")
	}
	own := Compact(part, mem)
	defer own.Release()
	if w, p := Size(own); w != partWindow || NeedsCompact(w, p) || p > 2048 {
		t.Fatalf("copy: window %d, pinned %d", w, p)
	}
}

func TestNeedsCompactBounds(t *testing.T) {
	for _, c := range []struct {
		window, pinned int64
		want           bool
	}{{0, 64 << 10, false}, {0, 64<<10 + 1, true}, {1 << 20, 2<<20 + 64<<10, false}, {1 << 20, 2<<20 + 64<<10 + 1, true}} {
		if got := NeedsCompact(c.window, c.pinned); got != c.want {
			t.Errorf("NeedsCompact(%d, %d) = %v", c.window, c.pinned, got)
		}
	}
}

func TestSizeCountsSharedRootOnce(t *testing.T) {
	root := memory.NewBufferBytes(make([]byte, 4096))
	var cols []arrow.Array
	var fields []arrow.Field
	for i := range 3 {
		one := memory.SliceBuffer(root, i*800, 800)
		two := memory.SliceBuffer(one, 0, 80)
		d := array.NewData(arrow.PrimitiveTypes.Int64, 10, []*memory.Buffer{nil, two}, nil, 0, 0)
		cols = append(cols, array.MakeFromData(d))
		fields = append(fields, opt(strings.Repeat("c", i+1), arrow.PrimitiveTypes.Int64))
	}
	rec := batch(fields, cols...)
	if window, pinned := Size(rec); window != 240 || pinned != 4096 {
		t.Fatalf("window %d, pinned %d", window, pinned)
	}
}

func TestSizeOfManyRoots(t *testing.T) {
	mem := memory.DefaultAllocator
	var cols []arrow.Array
	var fields []arrow.Field
	for i := range 200 {
		cols = append(cols, sample(mem, arrow.PrimitiveTypes.Int64, rand.New(rand.NewPCG(1, 1)), 8, false))
		fields = append(fields, opt("c"+strings.Repeat("x", i), arrow.PrimitiveTypes.Int64))
	}
	cols, fields = append(cols, cols[0], cols[150]), append(fields, opt("again", cols[0].DataType()), opt("too", cols[0].DataType()))
	rec := batch(fields, cols...)
	var want int64
	roots := map[*memory.Buffer]bool{}
	for _, c := range cols {
		collectRoots(c.Data(), roots)
	}
	for b := range roots {
		want += int64(b.Cap())
	}
	if _, pinned := Size(rec); pinned != want {
		t.Fatalf("pinned %d instead of %d", pinned, want)
	}
}

// Views may share bytes. The window must not count, nor the copy make, more bytes
// than there are.
func TestViewsThatShareBytes(t *testing.T) {
	const n, long = 1000, 10_000
	headers := make([]arrow.ViewHeader, n)
	blob := []byte(strings.Repeat("y", long))
	for i := range headers {
		headers[i].SetBytes(blob)
		headers[i].SetIndexOffset(0, 0)
	}
	d := array.NewData(arrow.BinaryTypes.StringView, n, []*memory.Buffer{nil,
		memory.NewBufferBytes(arrow.ViewHeaderTraits.CastToBytes(headers)), memory.NewBufferBytes(blob)}, nil, 0, 0)
	arr := array.MakeFromData(d)
	rec := batch([]arrow.Field{opt("v", arr.DataType())}, arr)
	if window, _ := Size(rec); window != n*16+long {
		t.Fatalf("window %d", window)
	}
	own := Compact(rec, memory.DefaultAllocator)
	if _, pinned := Size(own); pinned > n*16+long+256 {
		t.Fatalf("copy pins %d", pinned)
	}
	if !array.Equal(arr, own.Column(0)) {
		t.Fatal("copy differs")
	}
}

// An allocator need not clear its memory: bits beyond the rows must be cleared all
// the same, or two copies of one batch would differ.
func TestCompactClearsTrailingBits(t *testing.T) {
	arr := sample(memory.DefaultAllocator, arrow.FixedWidthTypes.Boolean, rand.New(rand.NewPCG(1, 1)), 13, false)
	rec := batch([]arrow.Field{opt("b", arr.DataType())}, arr)
	own := Compact(rec, dirty{memory.NewGoAllocator()})
	if last := own.Column(0).Data().Buffers()[1].Bytes()[1]; last>>5 != 0 {
		t.Fatalf("trailing bits %08b", last)
	}
}

type dirty struct{ memory.Allocator }

func (d dirty) Allocate(n int) []byte {
	b := d.Allocator.Allocate(n)
	memory.Set(b, 0xff)
	return b
}

func small(mem memory.Allocator) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(1, 1))
	types := []arrow.DataType{arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64}
	var cols []arrow.Array
	for _, dt := range types {
		cols = append(cols, sample(mem, dt, r, 20, false))
	}
	return batch([]arrow.Field{req("id", types[0]), opt("name", types[1]), opt("x", types[2])}, cols...)
}

func TestSizeDoesNotAllocate(t *testing.T) {
	rec := small(memory.DefaultAllocator)
	if n := testing.AllocsPerRun(100, func() { Size(rec) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// go test -bench Size -benchtime 200ms ./internal/schema
func BenchmarkSize(b *testing.B) {
	rec := small(memory.DefaultAllocator)
	b.ReportAllocs()
	for b.Loop() {
		Size(rec)
	}
}
