package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// held counts the bytes that the walker has: of objects that the store returned
// and of what was allocated, until the caller says that they are its own.
type held struct {
	objstore.Store
	memory.Allocator
	now, most atomic.Int64
}

func (h *held) add(n int64) {
	now := h.now.Add(n)
	for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
	}
}

func (h *held) Get(ctx context.Context, key string) ([]byte, error) {
	data, err := h.Store.Get(ctx, key)
	h.add(int64(len(data)))
	return data, err
}

func (h *held) Allocate(n int) []byte {
	h.add(int64(n))
	return h.Allocator.Allocate(n)
}

func (h *held) Reallocate(n int, b []byte) []byte {
	h.add(int64(n - len(b)))
	return h.Allocator.Reallocate(n, b)
}

func (h *held) Free(b []byte) {
	h.add(-int64(len(b)))
	h.Allocator.Free(b)
}

// What is read and what it expands to stays within the budget and one entry,
// however long the log is, whatever the caller's speed, and whether positions are
// listed or guessed.
func TestR10_MemoryAheadStaysWithinTheBudget(t *testing.T) {
	const entries = 60
	for _, compression := range []wal.Compression{wal.CompressionNone, wal.CompressionZstd} {
		b := newBuilder(t)
		b.encode.Compression = compression
		r := rand.New(rand.NewPCG(1, 10))
		var largest, total int64
		for range entries {
			b.data(300 + r.IntN(1200))
			data, err := b.store.Get(t.Context(), testDir+wal.Name(b.pos))
			if err != nil {
				t.Fatal(err)
			}
			n := int64(len(data)) + wal.Expansion(data, wal.DecodeOptions{})
			largest, total = max(largest, n), total+n
		}
		for _, budget := range []int64{1, largest, 4 * largest, 12 * largest} {
			for _, speculate := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/speculate=%v", compression, budget, speculate), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := faultstore.New(b.store, 7)
						store.SetLatency(faultstore.Latency{P50: 28 * time.Millisecond, P99: 67 * time.Millisecond})
						h := &held{Store: store, Allocator: memory.NewGoAllocator()}
						cfg := b.config()
						cfg.Store, cfg.Allocator, cfg.Budget, cfg.Speculate = h, h, budget, speculate
						limit := budget + largest
						if speculate {
							cfg.Listed = nil
							// What is under way is reserved by the largest so far, which may be small.
							limit += 2 * largest
						}
						w := NewWalker(cfg)
						defer w.Close()
						n := 0
						for {
							s, err := w.Next(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if s == nil {
								break
							}
							before := h.now.Load()
							s.Entry.Release()
							h.add(-s.Size)
							if before < s.Size {
								t.Errorf("position %d: %d bytes are held, which is less than the entry", s.Position, before)
							}
							if n++; n%10 == 0 {
								time.Sleep(time.Second) // everything that may be ahead is
								if h.now.Load() == 0 && n < entries {
									t.Error("nothing is ahead")
								}
								checkHeld(t, w.ahead)
							}
						}
						if n != entries+1 {
							t.Errorf("%d entries, want %d", n, entries+1)
						}
						// The entry handed over last counts until it is released.
						if most := h.most.Load(); most > limit+largest {
							t.Errorf("%d bytes were held of %d, the budget is %d and the largest entry %d", most, total, budget, largest)
						}
						if budget > largest && h.most.Load() < budget/2 {
							t.Errorf("no more than %d bytes were held, the budget is %d", h.most.Load(), budget)
						}
						w.Close()
						if now := h.now.Load(); now != 0 {
							t.Errorf("%d bytes are left", now)
						}
					})
				})
			}
		}
	}
}

// checkHeld checks, while nothing is under way, that what counts is what is there.
func checkHeld(t testing.TB, a *ahead) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	var want int64
	for _, f := range a.queue {
		want += f.size
		if f.state == ended {
			want += f.grows
		}
	}
	if a.held != want || a.flying != 0 || a.decoding != 0 {
		t.Errorf("%d bytes count, %d are there; %d requests, %d decoders", a.held, want, a.flying, a.decoding)
	}
}

// What has arrived is decoded before more is asked for: a budget full of
// objects that nobody may decode would be worth nothing.
func TestR10_DecodingComesBeforeMoreRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t)
		fields := userSchema.Fields()
		for i := range 10 { // of nulls, which compress to next to nothing
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("empty %d", i), Type: arrow.PrimitiveTypes.Float64, Nullable: true})
		}
		b.schema = storageOf(t, arrow.NewSchema(fields, nil), nil).Schema
		b.encode.Compression = wal.CompressionZstd
		for range 60 {
			b.data(2000)
		}
		data, err := b.store.Get(t.Context(), testDir+wal.Name(2))
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config()
		size, grows := int64(len(data)), wal.Expansion(data, wal.DecodeOptions{})
		// Room for three, and for many requests, but not for decoding one more.
		cfg.Budget, cfg.Fetches = 3*(size+grows)+grows-1, 3
		if grows < 8*size {
			t.Fatalf("an object of %d bytes grows by %d only", size, grows)
		}
		// One answer at a time: in a crowd, requests are sent while the decoders are busy.
		store := faultstore.New(b.store, 1)
		store.Add(faultstore.Rule{Count: -1, Park: true})
		cfg.Store = store
		w := NewWalker(cfg)
		defer w.Close()
		synctest.Wait()
		for store.ReleaseOne() != 0 {
			synctest.Wait()
		}
		decoded := 0
		for _, f := range w.ahead.queue {
			if f.state == ended {
				decoded++
			}
		}
		if n := len(w.ahead.queue); decoded < 3 || n-decoded > cfg.Fetches {
			t.Errorf("%d of %d objects are decoded", decoded, n)
		}
	})
}

// However answers come in, each position is judged as one after another would
// be; with damage, a hole, a fence or a failure at any place, the end is the same;
// and nothing is leaked.
func TestWalkerIsSequential(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 4))
		b := newBuilder(t)
		b.encode.Compression = pick(r, wal.CompressionNone, wal.CompressionLZ4)
		epoch := uint64(1)
		for range 30 {
			switch r.IntN(6) {
			case 0:
				epoch++
				b.fence(epoch)
			case 1:
				b.dead(epoch, r.IntN(5))
			default:
				b.data(1 + r.IntN(40))
			}
		}
		own := uint64(0)
		switch r.IntN(5) {
		case 0: // cut an object
			at := 1 + r.Uint64N(b.pos)
			data, err := b.store.Get(t.Context(), testDir+wal.Name(at))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.store.Put(t.Context(), testDir+wal.Name(at), objstore.Body{data[:r.IntN(len(data))]}); err != nil {
				t.Fatal(err)
			}
		case 1: // a hole
			if err := b.store.Delete(t.Context(), testDir+wal.Name(1+r.Uint64N(b.pos))); err != nil {
				t.Fatal(err)
			}
		case 2: // an owner that was fenced
			own = 1 + r.Uint64N(epoch)
		}
		want, wantErr := sequential(t, b, own)
		for _, speculate := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := faultstore.New(b.store, seed)
				store.SetLatency(faultstore.Latency{P50: 20 * time.Millisecond, P99: 500 * time.Millisecond})
				mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
				defer mem.AssertSize(t, 0)
				cfg := b.config()
				cfg.Store, cfg.Allocator, cfg.Epoch, cfg.Speculate = store, mem, own, speculate
				cfg.Budget, cfg.Fetches = int64(1+r.IntN(20_000)), 1+r.IntN(9)
				cfg.Listed = slices.DeleteFunc(cfg.Listed, func(Item) bool { return speculate || r.IntN(8) == 0 })
				w := NewWalker(cfg)
				defer w.Close()
				got, err := walk(t, w)
				if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) || int(w.Position()) != len(want)+1 {
					t.Errorf("seed %d, speculate %v: met %s, %v, at %d\nwant %s, %v", seed, speculate, got, err, w.Position(), want, wantErr)
				}
				// Asked again it stays, and says the same.
				if got, err := walk(t, w); got != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Errorf("seed %d: again: met %s, %v", seed, got, err)
				}
			})
		}
	}
}

func pick[T any](r *rand.Rand, vals ...T) T { return vals[r.IntN(len(vals))] }

// sequential is what a walk is: get, decode, judge, one after another.
func sequential(t testing.TB, b *builder, own uint64) (string, error) {
	t.Helper()
	chain := wal.NewChain(wal.Start())
	var met []byte
	for pos := uint64(1); ; pos++ {
		data, err := b.store.Get(t.Context(), testDir+wal.Name(pos))
		if errors.Is(err, objstore.ErrNotExist) {
			return string(met), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := wal.Decode(data, wal.DecodeOptions{})
		if err != nil {
			return string(met), wal.AtPosition(err, pos)
		}
		h, rows := e.Header, e.Rows
		e.Release()
		if own > 0 && h.Epoch > own {
			return string(met), manifest.FencedBy(own, h.Epoch)
		}
		switch v, err := chain.Judge(pos, h, rows); {
		case err != nil:
			return string(met), err
		case v == wal.Live && h.Fence:
			met = append(met, 'F')
		case v == wal.Live:
			met = append(met, 'L')
		default:
			met = append(met, '-')
		}
	}
}

// Close at any moment, with fetches under way, arrived and decoded.
func TestWalkerClosesAtAnyMoment(t *testing.T) {
	b := newBuilder(t)
	b.encode.Compression = wal.CompressionZstd
	for range 40 {
		b.data(200)
	}
	for step := range 60 {
		synctest.Test(t, func(t *testing.T) {
			store := faultstore.New(b.store, uint64(step))
			store.SetLatency(faultstore.Latency{P50: 20 * time.Millisecond, P99: 100 * time.Millisecond})
			mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer mem.AssertSize(t, 0)
			cfg := b.config()
			cfg.Store, cfg.Allocator, cfg.Speculate, cfg.Budget = store, mem, step%2 == 0, int64(10_000+1000*step)
			w := NewWalker(cfg)
			for range step / 2 {
				s, err := w.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.Entry.Release()
			}
			time.Sleep(time.Duration(step) * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if s, err := w.Next(ctx); err == nil {
				s.Entry.Release()
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			w.Close()
			w.Close()
			if _, err := w.Next(t.Context()); !errors.Is(err, errClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// watched counts the Gets of each position, and takes a fixed time for each.
type watched struct {
	objstore.Store
	latency time.Duration
	slow    map[uint64]time.Duration // more for these positions

	mu     sync.Mutex
	gets   map[uint64]int
	flying int
	most   int // in flight
}

func newWatched(s objstore.Store) *watched {
	return &watched{Store: s, latency: 10 * time.Millisecond, gets: make(map[uint64]int)}
}

func (s *watched) Get(ctx context.Context, key string) ([]byte, error) {
	pos, _ := wal.ParseName(key[len(testDir):])
	s.mu.Lock()
	s.gets[pos]++
	s.flying++
	s.most = max(s.most, s.flying)
	s.mu.Unlock()
	// The answer is of the moment when the request was sent: the worst case.
	data, err := s.Store.Get(ctx, key)
	time.Sleep(s.latency + s.slow[pos])
	s.mu.Lock()
	s.flying--
	s.mu.Unlock()
	return data, err
}

func (s *watched) count(pos uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets[pos]
}

func (s *watched) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.gets {
		n += c
	}
	return n
}

// The walk, its end included, takes as many round trips as the requests in flight
// need, and no request more than the log has entries and an end.
func TestX01_WalkTakesFewRoundTrips(t *testing.T) {
	for _, c := range []struct {
		entries, fetches int
		gap              bool // a put was in flight when the log was listed
		trips, requests  int
	}{
		{1, 16, false, 1, 2}, {15, 16, false, 1, 16}, {16, 16, false, 2, 17}, {41, 16, false, 3, 42},
		{41, 64, false, 1, 42}, {5, 1, false, 6, 6}, {10, 16, true, 1, 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBuilder(t)
			for range c.entries - 1 {
				b.data(1)
			}
			if c.gap {
				b.skip(1).data(1)
			}
			store := newWatched(b.store)
			cfg := b.config()
			cfg.Store, cfg.Fetches = store, c.fetches
			start := time.Now()
			w := NewWalker(cfg)
			defer w.Close()
			met, err := walk(t, w)
			if err != nil || len(met) != c.entries {
				t.Fatalf("%+v: met %s, %v", c, met, err)
			}
			if got := time.Since(start); got != time.Duration(c.trips)*store.latency {
				t.Errorf("%+v: took %v", c, got)
			}
			if n := store.total(); n != c.requests {
				t.Errorf("%+v: %d requests", c, n)
			}
		})
	}
}

// 40 entries and a fence in a store like a bucket of the same region.
func TestX01_WalkOfSmallEntriesWithLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t)
		for range 40 {
			b.data(1)
		}
		var total time.Duration
		const runs = 50
		for seed := range uint64(runs) {
			store := faultstore.New(b.store, seed)
			store.SetLatency(faultstore.S3Like)
			cfg := b.config()
			cfg.Store = store
			start := time.Now()
			w := NewWalker(cfg)
			if met, err := walk(t, w); err != nil || len(met) != 41 {
				t.Fatalf("met %s, %v", met, err)
			}
			total += time.Since(start)
			w.Close()
		}
		if mean := total / runs; mean > 100*time.Millisecond {
			t.Errorf("took %v on average", mean)
		}
	})
}

// A position that was found empty before Relist is asked for again, whether the
// answer had come or was under way; objects are not.
func TestR14_RelistForgetsWhatWasEmpty(t *testing.T) {
	for _, early := range []time.Duration{time.Millisecond, time.Second} { // the answer is under way, has come
		synctest.Test(t, func(t *testing.T) {
			b := newBuilder(t).data(1)
			store := newWatched(b.store)
			cfg := b.config()
			cfg.Store = store
			w := NewWalker(cfg)
			defer w.Close()
			time.Sleep(early)
			if n := store.count(3); n != 1 {
				t.Fatalf("%d requests for the end of the log", n)
			}
			b.data(1).data(1)
			w.Relist(b.list(), 1)
			start := time.Now()
			if met, err := walk(t, w); err != nil || met != "FLLL" {
				t.Errorf("met %s, %v; want FLLL", met, err)
			}
			if took := time.Since(start); took > 2*store.latency {
				t.Errorf("took %v", took)
			}
			for pos, want := range map[uint64]int{1: 1, 2: 1, 3: 2, 4: 1, 5: 1} {
				if n := store.count(pos); n != want {
					t.Errorf("%d requests for position %d, want %d", n, pos, want)
				}
			}
		})
	}
}

// What was listed before is kept, an epoch that is set later counts, and CheckHole
// uses the new listing.
func TestR14_RelistBetweenSteps(t *testing.T) {
	b := newBuilder(t).data(1).data(1)
	w := NewWalker(b.config())
	defer w.Close()
	if s, err := w.Next(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		s.Entry.Release()
	}
	b.skip(1).data(1).fence(2)
	w.Relist(b.list(), 2)
	if met, err := walk(t, w); err != nil || met != "LL" {
		t.Errorf("met %s, %v; want LL", met, err)
	}
	checkHole(t, w.CheckHole(t.Context(), Bounds{MaxInFlight: 4}), 4)

	b = newBuilder(t).data(1).fence(2).data(1)
	w = NewWalker(b.config())
	defer w.Close()
	w.Relist(b.list(), 1)
	if met, err := walk(t, w); !errors.Is(err, manifest.ErrFenced) || met != "FL" {
		t.Errorf("met %s, %v; want FL and a fence", met, err)
	}
}

// A follower asks for one position while nothing comes, for more the longer it
// finds something, and for one again at the end.
func TestX01_SpeculationGrowsAndFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t)
		store := newWatched(b.store)
		cfg := b.config()
		cfg.Store, cfg.Speculate, cfg.Listed, cfg.Fetches = store, true, nil, 8
		w := NewWalker(cfg)
		defer w.Close()
		if met, err := walk(t, w); err != nil || met != "F" {
			t.Fatalf("met %s, %v", met, err)
		}
		for i := range 5 { // nothing comes: one request each time it is asked
			before := store.total()
			if met, err := walk(t, w); err != nil || met != "" {
				t.Fatalf("met %s, %v", met, err)
			}
			time.Sleep(time.Second)
			if n := store.total() - before; n != 1 {
				t.Errorf("idle poll %d: %d requests", i, n)
			}
		}
		for range 64 {
			b.data(1)
		}
		before, start := store.total(), time.Now()
		store.most = 0
		met, err := walk(t, w)
		if err != nil || len(met) != 64 {
			t.Fatalf("met %s, %v", met, err)
		}
		time.Sleep(time.Second)
		if n := store.total() - before; n < 65 || n > 65+7 {
			t.Errorf("%d requests for 64 entries", n)
		}
		if store.most != 8 {
			t.Errorf("%d requests in flight, want 8", store.most)
		}
		if trips := (time.Since(start) - time.Second) / store.latency; trips > 12 {
			t.Errorf("%d round trips for 64 entries, 8 at a time", trips)
		}
	})
}

// What was found above an empty position says nothing later, when the writer
// has filled both; nor does an answer that comes late.
func TestV03_SpeculationUsesNoOldAbsence(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBuilder(t)
			for range 20 {
				b.data(1)
			}
			store := newWatched(b.store)
			cfg := b.config()
			cfg.Store, cfg.Speculate, cfg.Listed, cfg.Fetches = store, true, nil, 8
			w := NewWalker(cfg)
			defer w.Close()
			if met, err := walk(t, w); err != nil || len(met) != 21 {
				t.Fatalf("met %s, %v", met, err)
			}
			for i := range 20 {
				if i%3 == 0 {
					// A step that ends without an answer ends the round, too.
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					if _, err := w.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					cancel()
				}
				b.data(1).data(1).data(1)
				if !late {
					time.Sleep(time.Second)
				}
				if met, err := walk(t, w); err != nil || w.Position() != b.pos+1 {
					t.Fatalf("round %d: met %s, %v, at %d of %d", i, met, err, w.Position(), b.pos)
				}
			}
		})
	}
}

// stuck is an allocator whose large allocations wait.
type stuck struct {
	memory.Allocator
	open chan struct{}
}

func (s stuck) Allocate(n int) []byte {
	if n > 4096 {
		<-s.open
	}
	return s.Allocator.Allocate(n)
}

// What speculation found above the end is given up, whether it was asked for,
// waited to be decoded, was being decoded, or was ready; and nothing is asked for
// until the next step.
func TestV03_NothingStaysAboveTheEnd(t *testing.T) {
	for _, late := range []string{"asked", "waiting", "decoding", "ready"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBuilder(t)
			b.encode.Compression = wal.CompressionZstd
			for range 9 {
				b.data(1)
			}
			b.skip(1).data(2000).data(2000)
			store := newWatched(b.store)
			store.slow = map[uint64]time.Duration{11: 50 * time.Millisecond} // those above are asked for meanwhile
			mem := stuck{memory.NewCheckedAllocator(memory.NewGoAllocator()), make(chan struct{})}
			cfg := b.config()
			cfg.Store, cfg.Speculate, cfg.Listed, cfg.Allocator = store, true, nil, mem
			switch late {
			case "asked":
				store.slow[12], store.slow[13] = time.Second, time.Second
			case "waiting":
				cfg.Budget = 4000
			}
			if late != "decoding" {
				close(mem.open)
			}
			w := NewWalker(cfg)
			defer w.Close()
			if met, err := walk(t, w); err != nil || len(met) != 10 {
				t.Fatalf("%s: met %s, %v", late, met, err)
			}
			if n := store.count(12); n != 1 {
				t.Fatalf("%s: %d requests for what lies above the end", late, n)
			}
			requests := store.total()
			if late == "decoding" {
				synctest.Wait()
				if w.ahead.decoding == 0 {
					t.Error("nothing is being decoded")
				}
				close(mem.open)
			}
			time.Sleep(time.Minute)
			checkHeld(t, w.ahead)
			if len(w.ahead.queue) != 0 || store.total() != requests {
				t.Errorf("%s: %d objects ahead, %d requests more", late, len(w.ahead.queue), store.total()-requests)
			}
			mem.Allocator.(*memory.CheckedAllocator).AssertSize(t, 0)
		})
	}
}

// While an entry is judged, what else arrives does not make it be asked for again.
func TestX01_NothingIsAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t).data(1).data(1)
		store := newWatched(b.store)
		store.slow = map[uint64]time.Duration{2: time.Second, 3: time.Minute}
		cfg := b.config()
		cfg.Store = store
		w := NewWalker(cfg)
		defer w.Close()
		f, err := w.ahead.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.discard()
		time.Sleep(2 * time.Second)
		if n := store.count(1); n != 1 {
			t.Errorf("%d requests", n)
		}
		w.ahead.step()
		time.Sleep(time.Hour)
		if n := store.total(); n != 4 {
			t.Errorf("%d requests for 3 objects and the end", n)
		}
	})
}

// Once the end is known, nothing above it is asked for.
func TestX01_KnownEndBoundsSpeculation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t)
		for range 19 {
			b.data(1)
		}
		store := newWatched(b.store)
		store.slow = map[uint64]time.Duration{16: time.Second}
		cfg := b.config()
		cfg.Store, cfg.Speculate, cfg.Listed, cfg.Fetches = store, true, nil, 8
		w := NewWalker(cfg)
		defer w.Close()
		if met, err := walk(t, w); err != nil || len(met) != 20 {
			t.Fatalf("met %s, %v", met, err)
		}
		// 16 to 23 were under way when 21 was found empty.
		if n := store.total(); n != 23 {
			t.Errorf("%d requests for 20 entries", n)
		}
	})
}

// A store that throttles often: every row comes, each request that is sent again
// waits first, and no more are sent than were throttled.
func TestR11_ReplaySurvivesThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t)
		for range 100 {
			b.data(3)
		}
		faults := faultstore.New(b.store, 11)
		throttled := 0
		var mu sync.Mutex
		faults.Add(faultstore.Rule{
			Chance: 0.5, Count: -1, Before: faultstore.Status(503),
			OnRequest: func(faultstore.Request) { mu.Lock(); throttled++; mu.Unlock() },
		})
		var pauses []time.Duration
		var waited time.Duration
		store := objstore.WithRetry(faults, objstore.RetryOptions{
			MaxAttempts: 40, MinBackoff: 100 * time.Millisecond,
			OnRetry: func(r objstore.Retry) {
				mu.Lock()
				defer mu.Unlock()
				pauses, waited = append(pauses, r.Pause), waited+r.Pause
			},
		})
		start := time.Now()
		listed, err := List(t.Context(), store, testDir)
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config()
		cfg.Store, cfg.Listed = store, listed
		l := NewLoader(loaderOf(b.schema, memtable.Limits{}))
		if err := load(t, cfg, l); err != nil {
			t.Fatal(err)
		}
		tables := settled(t, l)
		defer release(tables)
		checkCounted(t, tables, 300)
		requests := len(faults.Requests())
		if throttled < 50 || requests != throttled+101+1+1 { // the end, and the listing
			t.Errorf("%d requests, %d of them throttled", requests, throttled)
		}
		if len(pauses) != throttled || waited < time.Duration(throttled)*40*time.Millisecond {
			t.Errorf("%d pauses, %v in all, for %d throttled requests", len(pauses), waited, throttled)
		}
		if took := time.Since(start); took < slices.Max(pauses) {
			t.Errorf("took %v, the longest pause was %v", took, slices.Max(pauses))
		}
	})
}

// A store that throttles for longer than the retries last: an error at the
// position, not the end of the log.
func TestR11_ThrottlingWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(t).data(1).data(1)
		faults := faultstore.New(b.store, 11)
		cfg := b.config()
		cfg.Store = objstore.WithRetry(faults, objstore.RetryOptions{})
		remove := faults.Add(faultstore.Rule{Key: testDir + wal.Name(3), Count: -1, Before: faultstore.Status(503)})
		w := NewWalker(cfg)
		defer w.Close()
		if met, err := walk(t, w); met != "FL" || !errors.Is(err, objstore.ErrThrottled) || w.Position() != 3 {
			t.Errorf("met %s, %v, at %d", met, err, w.Position())
		}
		remove()
		if met, err := walk(t, w); met != "L" || err != nil {
			t.Errorf("met %s, %v", met, err)
		}
	})
}

// shuffled lists in any order, some objects twice, and foreign keys between.
type shuffled struct {
	objstore.Store
	seed uint64
}

func (s shuffled) List(ctx context.Context, prefix string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		r := rand.New(rand.NewPCG(s.seed, 1))
		var all []objstore.Object
		for o, err := range s.Store.List(ctx, prefix) {
			if err != nil {
				yield(o, err)
				return
			}
			all = append(all, o)
			if r.IntN(5) == 0 {
				all = append(all, o)
			}
		}
		for _, name := range []string{"README", wal.Name(0), wal.Name(7) + ".tmp", "old/" + wal.Name(3), "9.arrow"} {
			all = append(all, objstore.Object{Key: prefix + name, Size: 1 << 40})
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func TestS04_ListingOrderChangesNothing(t *testing.T) {
	b := newBuilder(t)
	for range 30 {
		b.data(2)
	}
	want := b.list()
	for seed := range uint64(20) {
		store := shuffled{b.store, seed}
		got, err := List(t.Context(), store, testDir)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("seed %d: listed %v, %v\nwant %v", seed, got, err, want)
		}
		cfg := b.config()
		watch := newWatched(store)
		watch.latency = 0
		cfg.Store, cfg.Listed = watch, got
		w := NewWalker(cfg)
		if met, err := walk(t, w); err != nil || len(met) != 31 || watch.total() != 32 {
			t.Errorf("seed %d: met %s, %v, with %d requests", seed, met, err, watch.total())
		}
		checkHole(t, w.CheckHole(t.Context(), Bounds{MaxInFlight: 4}), 0)
		w.Close()
	}
	// A listing that fails halfway is not the log.
	faults := faultstore.New(b.store, 1)
	faults.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, After: faultstore.Status(500)})
	if l, err := List(t.Context(), faults, testDir); err == nil {
		t.Errorf("half a listing gave %v", l)
	}
}
