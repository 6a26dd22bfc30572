package memtable

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestPlace(t *testing.T) {
	k, off := 0, 0
	for i := range 100_000 {
		if gotK, gotOff := place(i); gotK != k || gotOff != off {
			t.Fatalf("batch %d is at %d/%d, want %d/%d", i, gotK, gotOff, k, off)
		}
		if firstChunk<<k-firstChunk+off != i {
			t.Fatalf("batch %d is not found from its place", i)
		}
		if off++; off == firstChunk<<k {
			k, off = k+1, 0
		}
	}
	if k, off := place(1<<32 - 1); k >= maxChunks || off >= firstChunk<<k {
		t.Errorf("the last batch would be at %d/%d", k, off)
	}
}

// Model: the list of all batches. Batches without rows leave nothing.
func TestStoreFindsEveryRow(t *testing.T) {
	mem := checked(t)
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := New(Config{Generation: 1, FirstRow: 1000, Schema: plainSchema})
		var owner []int // which batch holds a slot
		var window int64
		batches := []int{0, 1, 63, 64, 65, 700}[seed]
		for i := range batches {
			rows := 1 + rng.IntN(4)
			if i%3 == 0 {
				put(t, m, plain(mem, 0, 0))
			}
			if rng.IntN(50) == 0 {
				rows = 300
			}
			put(t, m, plain(mem, int64(len(owner)), rows))
			owner = append(owner, slices.Repeat([]int{i}, rows)...)
			window += 8 * int64(rows)
		}
		if m.Batches() != batches || int(m.Rows()) != len(owner) || m.EndRow() != 1000+uint64(len(owner)) {
			t.Fatalf("seed %d: %d batches, %d rows, end %d", seed, m.Batches(), m.Rows(), m.EndRow())
		}
		if m.WindowBytes() != window || m.PinnedBytes() != 2*window || m.WindowOf(0, batches) != window {
			t.Fatalf("seed %d: window %d, pinned %d, want %d and twice that", seed, m.WindowBytes(), m.PinnedBytes(), window)
		}
		for slot, want := range owner {
			i := m.FindBatch(uint32(slot))
			rec, row := m.Locate(uint32(slot))
			b := m.Batch(i)
			if i != want || b.Rec != rec || int(b.FirstSlot)+row != slot || int64At(rec, 0, row) != int64(slot) {
				t.Fatalf("seed %d: slot %d is in batch %d, want %d", seed, slot, i, want)
			}
			if b.Window != 8*rec.NumRows() {
				t.Fatalf("seed %d: batch %d has window %d", seed, i, b.Window)
			}
		}
		if m.FindBatch(m.Rows()) != batches {
			t.Fatalf("seed %d: the slot after the last is in batch %d", seed, m.FindBatch(m.Rows()))
		}
		m.Release()
	}
}

func TestSearch(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		first := make([]uint32, 1+rng.IntN(200))
		end := rng.Uint32N(10)
		for i := range first {
			first[i] = end
			if end += 1 + rng.Uint32N(4); rng.IntN(4) == 0 {
				end += rng.Uint32N(1 << (2 + seed%20))
			}
		}
		for slot := first[0]; slot < min(end+2, first[0]+1000); slot++ {
			after, _ := slices.BinarySearch(first, slot+1)
			if got, at := search(first, slot, end), after-1; got != at {
				t.Fatalf("seed %d: slot %d is at %d, want %d", seed, slot, got, at)
			}
		}
	}
}

// Readers see, at any moment, a prefix that is whole: what the count says is
// there is there, and does not change.
func TestStoreReadersBesideAppend(t *testing.T) {
	mem := checked(t)
	const batches = 3000
	m := New(Config{Generation: 1, Schema: plainSchema})
	defer m.Release()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 2))
			for rows := uint32(0); ; {
				select {
				case <-done:
					return
				default:
				}
				n, now := m.Batches(), m.Rows()
				if now < rows {
					t.Errorf("the row count fell from %d to %d", rows, now)
					return
				}
				if rows = now; n > 0 {
					if b := m.Batch(n - 1); b.FirstSlot+uint32(b.Rec.NumRows()) > now {
						t.Errorf("batch %d ends after row %d", n-1, now)
						return
					}
				}
				if rows > 0 {
					slot := rng.Uint32N(rows)
					if rec, row := m.Locate(slot); int64At(rec, 0, row) != int64(slot) {
						t.Errorf("slot %d holds %d", slot, int64At(rec, 0, row))
						return
					}
				}
			}
		})
	}
	for first, i := int64(0), 0; i < batches; i++ {
		rows := i % 5
		put(t, m, plain(mem, first, rows))
		first += int64(rows)
	}
	close(done)
	wg.Wait()
}

func TestBatchOutOfRangePanics(t *testing.T) {
	m := New(Config{Generation: 1, Schema: plainSchema})
	defer m.Release()
	for _, i := range []int{-1, 0} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("batch %d of none: no panic", i)
				}
			}()
			m.Batch(i)
		}()
	}
}

// null returns a batch with many rows that take no memory.
func null(rows int64) arrow.RecordBatch {
	column := array.NewNull(int(rows))
	defer column.Release()
	return array.NewRecordBatch(nullSchema, []arrow.Array{column}, rows)
}

var nullSchema = arrow.NewSchema([]arrow.Field{{Name: "nothing", Type: arrow.Null, Nullable: true}}, nil)

// filled returns a memtable of n batches of rows each.
func filled(b *testing.B, n, rows int) *Memtable {
	b.Helper()
	m := New(Config{Generation: 1, Schema: plainSchema})
	rec := plain(memory.DefaultAllocator, 0, rows)
	defer rec.Release()
	for range n {
		if err := m.Append(rec, 8, 8); err != nil {
			b.Fatal(err)
		}
	}
	return m
}

// The cost of an append must not depend on how many batches there are. Chunks
// are allocated now and then, so each measurement spans a doubling.
func BenchmarkAppend(b *testing.B) {
	rec := plain(memory.DefaultAllocator, 0, 1)
	defer rec.Release()
	for _, n := range []int{10, 100, 1000, 10_000, 100_000} {
		b.Run(size(n), func(b *testing.B) {
			b.ReportAllocs()
			for left := 0; b.Loop(); left-- {
				if left == 0 {
					b.StopTimer()
					base = filled(b, n, 1)
					left = n + firstChunk
					b.StartTimer()
				}
				if err := base.Append(rec, 8, 8); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var base *Memtable // keeps the compiler from dropping what is measured

func BenchmarkLocate(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		for _, shape := range []struct {
			name string
			rows func(i int, rng *rand.Rand) int
		}{
			{"even", func(int, *rand.Rand) int { return 20 }},
			{"random", func(_ int, rng *rand.Rand) int { return 1 + rng.IntN(40) }},
			{"skewed", func(i int, _ *rand.Rand) int { return 1 + 300*(i%512/500) }},
		} {
			b.Run(size(n)+"/"+shape.name, func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 1))
				m := New(Config{Generation: 1, Schema: plainSchema})
				large := plain(memory.DefaultAllocator, 0, 301)
				defer large.Release()
				for i := range n {
					put(b, m, large.NewSlice(0, int64(shape.rows(i, rng))))
				}
				slots := make([]uint32, 1<<12)
				for i := range slots {
					slots[i] = rng.Uint32N(m.Rows())
				}
				b.ReportAllocs()
				sum := 0
				for i := 0; b.Loop(); i++ {
					_, row := m.Locate(slots[i&(1<<12-1)])
					sum += row
				}
				if sum < 0 {
					b.Fatal("negative rows")
				}
			})
		}
	}
}

func size(n int) string {
	switch {
	case n >= 1000:
		return size(n/1000) + "k"
	case n >= 100:
		return string(rune('0'+n/100)) + "00"
	case n >= 10:
		return string(rune('0'+n/10)) + string(rune('0'+n%10))
	default:
		return string(rune('0' + n))
	}
}
