package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// gated is a store whose Gets wait until they are let through.
type gated struct {
	objstore.Store
	sizes map[string]int64 // by key

	mu      sync.Mutex
	open    chan struct{} // closed: Gets go through
	flying  int
	started []string // keys
	bytes   int64    // of the Gets that were started
	fail    map[string]error
}

func newGated(b *builder) *gated {
	g := &gated{Store: b.store, open: make(chan struct{}), sizes: make(map[string]int64), fail: make(map[string]error)}
	for _, it := range b.list() {
		g.sizes[testDir+wal.Name(it.Position)] = it.Size
	}
	return g
}

func (g *gated) Get(ctx context.Context, key string) ([]byte, error) {
	g.mu.Lock()
	g.flying++
	g.started = append(g.started, key)
	g.bytes += g.sizes[key]
	err := g.fail[key]
	delete(g.fail, key)
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.flying--
		g.mu.Unlock()
	}()
	select {
	case <-g.open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return g.Store.Get(ctx, key)
}

func (g *gated) state() (started int, bytes int64, flying int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.started), g.bytes, g.flying
}

func TestWalkerTellsLiveFromDead(t *testing.T) {
	b := newBuilder(t).data(2).data(1).dead(1, 3).data(1).fence(2).dead(1, 1).dead(2, 1).data(2).fence(5).data(1)
	w := NewWalker(b.config())
	defer w.Close()
	met, err := walk(t, w)
	if want := "FLL-LF--LFL"; err != nil || met != want {
		t.Errorf("met %s, %v; want %s", met, err, want)
	}
	want := b.at
	want.Position = b.pos
	if got := w.Tuple(); got != want {
		t.Errorf("tuple %+v, want %+v", got, want)
	}
	// It goes on from any floor as if it had come from the start.
	for i := range met {
		all := NewWalker(b.config())
		for range i + 1 {
			s, err := all.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Entry.Release()
		}
		cfg := b.config()
		cfg.From = all.Tuple()
		all.Close()
		rest := NewWalker(cfg)
		if got, err := walk(t, rest); err != nil || got != met[i+1:] {
			t.Errorf("from position %d: met %s, %v; want %s", i+1, got, err, met[i+1:])
		}
		rest.Close()
	}
}

// The listing only steers what is fetched ahead.
func TestWalkerVisitsWhatWasNotListed(t *testing.T) {
	b := newBuilder(t)
	for range 12 {
		b.data(1)
	}
	all := b.list()
	for name, listed := range map[string]Listing{
		"nothing": nil, "all": all, "the first": all[:1], "the last": all[12:], "every other one": {all[0], all[2], all[4], all[11]},
		"one that is gone": append(slices.Clone(all), Item{14, 100}, Item{20, 100}),
	} {
		cfg := b.config()
		cfg.Listed = listed
		w := NewWalker(cfg)
		if met, err := walk(t, w); err != nil || met != "FLLLLLLLLLLLL" {
			t.Errorf("%s listed: met %s, %v", name, met, err)
		}
		w.Close()
	}
}

func TestR10_WalkerFetchesAheadWithinItsBounds(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries float64 // the budget, in entries
		fetches int
		want    int // fetched ahead
	}{
		{"one entry however small the budget is", 0.1, 8, 1},
		{"the budget holds one", 1.5, 8, 1},
		{"the budget holds three", 3.5, 8, 3},
		{"the budget holds more than may be in flight", 100, 5, 5},
		{"defaults", 0, 0, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBuilder(t)
				for range 30 {
					b.data(200)
				}
				size, largest := b.list()[1].Size, int64(0)
				for _, it := range b.list() {
					largest = max(largest, it.Size)
				}
				g := newGated(b)
				cfg := b.config()
				cfg.Store, cfg.Budget, cfg.Fetches = g, int64(c.entries*float64(size)), c.fetches
				cfg.From = wal.Tuple{Position: 1, Epoch: 1, PutID: fenceID(t, b), Generation: 1}
				w := NewWalker(cfg)
				defer w.Close()
				synctest.Wait() // it starts before the first step
				if n, _, flying := g.state(); n != c.want || flying != c.want {
					t.Errorf("%d requests, %d of them in flight; want %d", n, flying, c.want)
				}
				close(g.open)
				limit := cfg.Budget + largest
				if cfg.Budget == 0 {
					limit = windowFactor * 24 * largest
				}
				for seen := int64(0); ; {
					s, err := w.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if s == nil {
						break
					}
					synctest.Wait() // everything that may be fetched has been
					seen += s.Size
					if _, bytes, _ := g.state(); bytes-seen > limit {
						t.Errorf("position %d: %d bytes are held, the budget is %d", s.Position, bytes-seen, limit)
					}
					s.Entry.Release()
				}
				if n, _, _ := g.state(); n != 31 { // the empty position, too
					t.Errorf("%d requests for 30 entries", n)
				}
			})
		})
	}
}

func fenceID(t testing.TB, b *builder) wal.PutID {
	t.Helper()
	data, err := b.store.Get(context.Background(), testDir+wal.Name(1))
	if err != nil {
		t.Fatal(err)
	}
	h, err := wal.DecodeHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	return h.PutID
}

// At the end of the log it stays, and looks again when asked again.
func TestWalkerStaysAtTheFirstEmptyPosition(t *testing.T) {
	b := newBuilder(t).data(1)
	cfg := b.config()
	w := NewWalker(cfg)
	defer w.Close()
	if met, err := walk(t, w); err != nil || met != "FL" || w.Position() != 3 {
		t.Fatalf("met %s, %v, at %d", met, err, w.Position())
	}
	if met, err := walk(t, w); err != nil || met != "" || w.Position() != 3 {
		t.Errorf("met %s, %v, at %d", met, err, w.Position())
	}
	b.data(1).data(1)
	if met, err := walk(t, w); err != nil || met != "LL" || w.Position() != 5 {
		t.Errorf("met %s, %v, at %d", met, err, w.Position())
	}
}

// An object that was listed is gone when it is fetched: an empty position.
func TestWalkerStopsAtAnObjectThatVanished(t *testing.T) {
	b := newBuilder(t).data(1).data(1).data(1)
	cfg := b.config()
	if err := b.store.Delete(t.Context(), testDir+wal.Name(3)); err != nil {
		t.Fatal(err)
	}
	w := NewWalker(cfg)
	defer w.Close()
	if met, err := walk(t, w); err != nil || met != "FL" || w.Position() != 3 {
		t.Errorf("met %s, %v, at %d; want FL, at 3", met, err, w.Position())
	}
}

// A failed request is an error at its position, and not the end of the log. Asked
// again, the walker asks the store again.
func TestF04_WalkerReportsAFailedRead(t *testing.T) {
	for _, listed := range []bool{true, false} {
		b := newBuilder(t).data(1).data(1).data(1)
		g := newGated(b)
		close(g.open)
		broken := errors.New("injected")
		g.fail[testDir+wal.Name(3)] = broken
		cfg := b.config()
		cfg.Store = g
		if !listed {
			cfg.Listed = nil
		}
		w := NewWalker(cfg)
		if met, err := walk(t, w); !errors.Is(err, broken) || met != "FL" || w.Position() != 3 {
			t.Errorf("listed %v: met %s, %v, at %d", listed, met, err, w.Position())
		}
		if met, err := walk(t, w); err != nil || met != "LL" {
			t.Errorf("listed %v: again: met %s, %v", listed, met, err)
		}
		w.Close()
	}
}

func TestR06_WalkerEndsAtAHigherEpoch(t *testing.T) {
	for _, c := range []struct {
		own  uint64
		met  string
		fine bool
	}{{0, "FLFL-", true}, {4, "FLFL-", true}, {3, "FLFL", false}, {2, "FL", false}} {
		b := newBuilder(t).data(1).fence(3).data(1).dead(4, 1)
		cfg := b.config()
		cfg.Epoch = c.own
		w := NewWalker(cfg)
		met, err := walk(t, w)
		w.Close()
		if met != c.met || (err == nil) != c.fine || !c.fine && !errors.Is(err, manifest.ErrFenced) {
			t.Errorf("own epoch %d: met %s, %v; want %s", c.own, met, err, c.met)
		}
	}
}

func TestR09_WalkerNamesTheDamagedPosition(t *testing.T) {
	b := newBuilder(t).data(5).data(5)
	data, err := b.store.Get(t.Context(), testDir+wal.Name(3))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += 7 {
		for what, bad := range map[string][]byte{"cut": data[:i], "flipped": flipped(data, i)} {
			if err := b.store.Put(t.Context(), testDir+wal.Name(3), objstore.Body{bad}); err != nil {
				t.Fatal(err)
			}
			w := NewWalker(b.config())
			met, err := walk(t, w)
			corrupt, ok := errors.AsType[*wal.CorruptError](err)
			if met != "FL" || !ok || corrupt.Position != 3 {
				t.Errorf("%s at byte %d: met %s, %v", what, i, met, err)
			}
			w.Close()
		}
	}
}

func flipped(data []byte, at int) []byte {
	c := slices.Clone(data)
	c[at] ^= 0x40
	return c
}

// A fence has been recycled, with the floor above it. What dead writers have left
// there still does not count.
func TestF14_DeadObjectsAtTheFloorStayDead(t *testing.T) {
	b := newBuilder(t).data(1).data(1)
	old := b.at // what an entry in flight of epoch 1 follows
	b.fence(2)
	floor := b.at
	h := wal.Header{Epoch: 1, PutID: wal.NewPutID(), PrevPutID: old.PutID, FirstRow: old.NextRow, Generation: 1}
	b.entry(h, 1) // lands right above the fence
	b.dead(1, 1).data(3)
	for pos := uint64(1); pos <= floor.Position; pos++ {
		if err := b.store.Delete(t.Context(), testDir+wal.Name(pos)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := b.config()
	cfg.From = floor
	w := NewWalker(cfg)
	defer w.Close()
	if met, err := walk(t, w); err != nil || met != "--L" {
		t.Errorf("met %s, %v; want --L", met, err)
	}
	if next := w.Tuple().NextRow; next != 5 {
		t.Errorf("next row %d, want 5", next)
	}
}

// Close ends the fetches in flight and leaves nothing behind, whatever was
// fetched.
func TestWalkerCloseJoinsItsFetches(t *testing.T) {
	for _, steps := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
				defer mem.AssertSize(t, 0)
				b := newBuilder(t)
				b.encode.Compression = wal.CompressionZstd
				for range 10 {
					b.data(2000)
				}
				g := newGated(b)
				cfg := b.config()
				cfg.Store, cfg.Allocator = g, mem
				w := NewWalker(cfg)
				if steps == 0 {
					ctx, cancel := context.WithCancel(t.Context())
					cancel()
					if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
						t.Errorf("next: %v", err)
					}
				} else {
					close(g.open)
				}
				for range steps {
					s, err := w.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					s.Entry.Release()
				}
				synctest.Wait()
				w.Close()
				if _, _, flying := g.state(); flying != 0 {
					t.Errorf("%d requests are still in flight", flying)
				}
				w.Close()
			})
		})
	}
}

func TestS04_ListIgnoresForeignNames(t *testing.T) {
	b := newBuilder(t).data(1)
	for _, name := range []string{"x", wal.Name(0), wal.Name(3) + "x", "sub/" + wal.Name(3), "1.arrow"} {
		if err := b.store.Put(t.Context(), testDir+name, objstore.Body{[]byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	var got []uint64
	for _, it := range b.list() {
		got = append(got, it.Position)
	}
	if !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("listed %v, want 1 and 2", got)
	}
}
