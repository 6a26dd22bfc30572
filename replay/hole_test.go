package replay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// The rule, with a window of 4 and epoch 3 in force at the empty position.
func TestR14_Witness(t *testing.T) {
	for _, c := range []struct {
		epoch, distance uint64
		fence           bool
		proves          bool
	}{
		{3, 1, false, false}, {3, 3, false, false}, // within the window
		{3, 4, false, true}, {3, 5, false, true}, {3, 1 << 40, false, true},
		{2, 1, false, false}, {2, 4, false, false}, {1, 1 << 40, false, false}, // of a fenced writer
		{4, 1, false, true}, {4, 100, false, true}, // of an epoch that began above
		{4, 1, true, true}, {3, 1, true, true}, {2, 1, true, true}, {2, 100, true, true}, // fences
	} {
		got := witness(wal.Header{Epoch: c.epoch, Fence: c.fence}, c.distance, 3, 4)
		if (got != "") != c.proves {
			t.Errorf("epoch %d, fence %v, %d above: %q, want a proof: %v", c.epoch, c.fence, c.distance, got, c.proves)
		}
	}
}

// holeCase is a log and what is to be found of it.
type holeCase struct {
	name  string
	log   func(*builder)
	b     Bounds
	epoch uint64 // of the manifest
	hole  uint64 // position; 0: none
	early uint64 // the same before the walk, when the epoch in force is not known
}

var holeCases = []holeCase{
	{"complete", func(b *builder) { b.data(1).data(1) }, Bounds{MaxInFlight: 4}, 1, 0, 0},
	{"only a fence", func(*builder) {}, Bounds{MaxInFlight: 4}, 1, 0, 0},
	{"puts in flight", func(b *builder) { b.data(1).skip(1).data(1).data(1).data(1) }, Bounds{MaxInFlight: 4}, 1, 0, 0},
	{"further than the window", func(b *builder) { b.data(1).skip(1).data(1).data(1).data(1).data(1) }, Bounds{MaxInFlight: 4}, 1, 3, 3},
	{"a window of 1", func(b *builder) { b.data(1).skip(1).data(1) }, Bounds{MaxInFlight: 1}, 1, 3, 3},
	{"two gaps within the window", func(b *builder) { b.skip(1).data(1).skip(1).data(1) }, Bounds{MaxInFlight: 4}, 1, 0, 0},
	{"a gap as wide as the window", func(b *builder) { b.skip(4).data(1) }, Bounds{MaxInFlight: 4}, 1, 2, 2},
	{"a fence above", func(b *builder) { b.data(1).skip(1).fence(2) }, Bounds{MaxInFlight: 4}, 2, 3, 3},
	{"the fence itself", func(b *builder) { b.data(1).fence(2).data(1) }, Bounds{MaxInFlight: 4}, 2, 0, 0},
	{"the fence is missing", func(b *builder) { b.data(1).skip(1); b.at.Epoch = 2; b.data(1) }, Bounds{MaxInFlight: 4}, 2, 3, 0},
	{"claimed and not fenced yet", func(b *builder) { b.data(1).skip(1).data(1) }, Bounds{MaxInFlight: 4}, 2, 0, 0},
	{"dead objects right above", func(b *builder) { b.data(1).fence(2).skip(1).dead(1, 1) }, Bounds{MaxInFlight: 4}, 2, 0, 0},
	{"dead objects far above", func(b *builder) { b.data(1).fence(2).skip(60).dead(1, 1) }, Bounds{MaxInFlight: 4}, 2, 0, 0},
	{"seen further", func(b *builder) { b.data(1) }, Bounds{MaxInFlight: 4, LastSeen: 3}, 1, 3, 3},
	{"seen to the end", func(b *builder) { b.data(1) }, Bounds{MaxInFlight: 4, LastSeen: 2}, 1, 0, 0},
	{"the first is missing", func(b *builder) {
		if err := b.store.Delete(b.t.Context(), testDir+wal.Name(1)); err != nil {
			b.t.Fatal(err)
		}
		b.data(1).data(1).data(1).data(1).data(1).fence(2)
	}, Bounds{MaxInFlight: 4}, 2, 1, 1},
}

func checkHole(t *testing.T, err error, want uint64) {
	t.Helper()
	if want == 0 {
		if err != nil {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	hole, ok := errors.AsType[*HoleError](err)
	if !ok || hole.Position != want || hole.Witness < want || !errors.Is(err, ErrHole) {
		t.Errorf("got %v, want a hole at %d", err, want)
	}
}

func TestR14_CheckHole(t *testing.T) {
	for _, c := range holeCases {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			c.log(b)
			w := NewWalker(b.config())
			defer w.Close()
			if _, err := walk(t, w); err != nil {
				t.Fatal(err)
			}
			checkHole(t, w.CheckHole(t.Context(), c.b), c.hole)
		})
	}
}

func TestR14_Precheck(t *testing.T) {
	for _, c := range holeCases {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			c.log(b)
			checkHole(t, Precheck(t.Context(), b.config(), c.epoch, c.b), c.early)
		})
	}
}

// The listing had passed a position before it was written to, and shows what was
// written above it later: no hole.
func TestR14_PrecheckLooksAgain(t *testing.T) {
	b := newBuilder(t)
	for range 8 {
		b.data(1)
	}
	cfg := b.config()
	cfg.Listed = append(cfg.Listed[:2:2], cfg.Listed[3:]...)
	if err := Precheck(t.Context(), cfg, 1, Bounds{MaxInFlight: 4}); err != nil {
		t.Errorf("got %v, want none", err)
	}
	// What the floor covers may be gone.
	for pos := uint64(1); pos <= 4; pos++ {
		if err := b.store.Delete(t.Context(), testDir+wal.Name(pos)); err != nil {
			t.Fatal(err)
		}
	}
	cfg = b.config()
	cfg.From = wal.Tuple{Position: 4, Epoch: 1, Generation: 1}
	if err := Precheck(t.Context(), cfg, 1, Bounds{MaxInFlight: 4, LastSeen: 9}); err != nil {
		t.Errorf("above the floor: got %v, want none", err)
	}
	cfg.From = wal.Tuple{Position: 3, Epoch: 1, Generation: 1}
	checkHole(t, Precheck(t.Context(), cfg, 1, Bounds{MaxInFlight: 4}), 4)
}

// A witness that is gone when it is read proves nothing; one that cannot be read
// is an error.
func TestR14_Witnesses(t *testing.T) {
	build := func() (*builder, Config) {
		b := newBuilder(t).data(1).skip(1).fence(2)
		return b, b.config()
	}
	check := func(cfg Config) error {
		w := NewWalker(cfg)
		defer w.Close()
		if _, err := walk(t, w); err != nil {
			t.Fatal(err)
		}
		return w.CheckHole(t.Context(), Bounds{MaxInFlight: 4})
	}
	b, cfg := build()
	if err := b.store.Delete(t.Context(), testDir+wal.Name(4)); err != nil {
		t.Fatal(err)
	}
	checkHole(t, check(cfg), 0)

	b, cfg = build()
	if err := b.store.Put(t.Context(), testDir+wal.Name(4), objstore.Body{[]byte("damaged")}); err != nil {
		t.Fatal(err)
	}
	if corrupt, ok := errors.AsType[*wal.CorruptError](check(cfg)); !ok || corrupt.Position != 4 {
		t.Errorf("got %v, want a CorruptError at 4", check(cfg))
	}

	_, cfg = build()
	cfg.Epoch = 1
	if err := check(cfg); !errors.Is(err, manifest.ErrFenced) || errors.Is(err, ErrHole) {
		t.Errorf("got %v, want ErrFenced", err)
	}

	b, cfg = build()
	g := newGated(b)
	close(g.open)
	broken := fmt.Errorf("injected")
	cfg.Store, cfg.Listed = g, nil
	w := NewWalker(cfg)
	defer w.Close()
	if _, err := walk(t, w); err != nil {
		t.Fatal(err)
	}
	w.cfg.Listed = b.list()
	g.fail[testDir+wal.Name(4)] = broken
	if err := w.CheckHole(t.Context(), Bounds{MaxInFlight: 4}); !errors.Is(err, broken) || errors.Is(err, ErrHole) {
		t.Errorf("got %v, want the injected failure", err)
	}
}
