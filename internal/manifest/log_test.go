package manifest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

const dir = "_mem_wal/s/manifest/"

// world is a store with faults, and a clock that tests may push.
type world struct {
	t     *testing.T
	mem   objstore.Store
	store *faultstore.Store
	ahead atomic.Int64 // nanoseconds
}

func newWorld(t *testing.T) *world {
	mem := objstore.NewMemory()
	return &world{t: t, mem: mem, store: faultstore.New(mem, 1)}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) log() *Log { return New(w.store, dir, &Options{Now: w.now}) }

func (w *world) claim(l *Log) *Manifest {
	w.t.Helper()
	m, err := l.Claim(w.t.Context(), nil, next)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// next is the build function of a plain claim.
func next(cur *Manifest) (*Manifest, error) {
	if cur == nil {
		return &Manifest{Generation: 1}, nil
	}
	return cur.Clone(), nil
}

func (w *world) versions() []uint64 {
	w.t.Helper()
	vs, err := New(w.mem, dir, nil).versions(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return vs
}

func (w *world) newest(l *Log) *Manifest {
	w.t.Helper()
	m, err := l.Newest(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) delete(v uint64) {
	w.t.Helper()
	if err := w.mem.Delete(w.t.Context(), dir+Name(v)); err != nil {
		w.t.Fatal(err)
	}
}

func note(key string) func(*Manifest) error {
	return func(m *Manifest) error {
		if m.Annotations == nil {
			m.Annotations = map[string][]byte{}
		}
		m.Annotations[key] = []byte("x")
		return nil
	}
}

func (w *world) update(l *Log, own Owner, key string) *Manifest {
	w.t.Helper()
	m, err := l.Update(w.t.Context(), own, note(key))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func TestNewShard(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	if m := w.newest(l); m != nil {
		t.Fatalf("newest of nothing: %+v", m)
	}
	m := w.claim(l)
	if m.Version != 1 || m.Epoch != 1 || m.ClaimID.IsZero() || m.ClaimID != m.CommitID || !m.ParentCommitID.IsZero() {
		t.Errorf("first version: %+v", m)
	}
	u := w.update(l, m.Owner(), "a")
	if u.Version != 2 || u.ParentCommitID != m.CommitID || u.ClaimID != m.ClaimID || u.CommitID == m.CommitID {
		t.Errorf("second version: %+v", u)
	}
	if got := w.newest(l); !equal(got, u) || got.oldest != 1 || got.listSent.IsZero() {
		t.Errorf("newest %+v", got)
	}
}

// F01: two writers never overwrite each other's version.
func TestF01_VersionsAreNeverOverwritten(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := w.log(), w.log()
	w.claim(a)
	base := w.newest(a)
	first, second := base.Clone(), base.Clone()
	if err := a.Commit(ctx, base, first); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(ctx, base, second); !errors.Is(err, ErrConflict) {
		t.Fatalf("second commit of version 2: %v", err)
	}
	if got := w.newest(b); got.CommitID != first.CommitID {
		t.Errorf("version 2 is %s", got.CommitID)
	}
	if err := a.Commit(ctx, base, base); !errors.Is(err, ErrInvalid) {
		t.Errorf("commit of the base itself: %v", err)
	}
}

// F04: a failed request is an error, never read as "absent" or "not fenced".
func TestF04_FailedProbeIsAnError(t *testing.T) {
	for _, rule := range []faultstore.Rule{
		{Ops: []objstore.Op{objstore.OpList}, Before: faultstore.Status(500), Count: -1},
		{Ops: []objstore.Op{objstore.OpGet}, Before: faultstore.Status(500), Count: -1},
		{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(2), Before: faultstore.Status(503), Count: -1},
		{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(2), Before: faultstore.Status(403), Count: -1},
	} {
		w := newWorld(t)
		l := w.log()
		own := w.claim(l).Owner()
		w.store.Add(rule)
		if m, err := l.Newest(t.Context()); err == nil {
			t.Errorf("%+v: newest = %+v", rule, m)
		}
		if err := l.Check(t.Context(), own); err == nil || errors.Is(err, ErrFenced) {
			t.Errorf("%+v: check = %v", rule, err)
		}
		if m, err := l.Claim(t.Context(), nil, next); err == nil {
			t.Errorf("%+v: claimed %+v", rule, m)
		}
		if got := w.versions(); len(got) != 1 {
			t.Errorf("%+v: versions %v", rule, got)
		}
	}
}

// Probing finds a version that the List does not show yet.
func TestNewestProbesUpward(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	own := w.claim(l).Owner()
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(2), OnRequest: func(faultstore.Request) {
		other := New(w.mem, dir, nil)
		for _, key := range []string{"a", "b"} {
			if _, err := other.Update(context.Background(), own, note(key)); err != nil {
				t.Error(err)
			}
		}
	}})
	if m := w.newest(l); m.Version != 3 || m.oldest != 1 {
		t.Errorf("newest %d, oldest %d", m.Version, m.oldest)
	}
}

// A follower sees every version, mostly without a listing; when versions may have
// come and gone, it lists.
func TestFollowerProbesAndLists(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	lists := func() (n int) {
		for _, r := range w.store.Requests() {
			if r.Op == objstore.OpList {
				n++
			}
		}
		return n
	}
	f := l.Follow()
	if m, err := f.Newest(t.Context()); err != nil || m != nil {
		t.Fatalf("empty log: %v, %v", m, err)
	}
	first, err := l.Claim(t.Context(), nil, func(*Manifest) (*Manifest, error) {
		return &Manifest{Generation: 1, FenceRetention: 24 * time.Hour}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	newest := func(want uint64) {
		t.Helper()
		if m, err := f.Newest(t.Context()); err != nil || m.Version != want {
			t.Fatalf("newest %+v, %v, want version %d", m, err, want)
		}
	}
	newest(1)
	w.update(l, first.Owner(), "a")
	w.update(l, first.Owner(), "b")
	before := lists()
	newest(3)
	newest(3)
	if n := lists() - before; n != 0 {
		t.Errorf("%d listings for a follower that looks often", n)
	}
	// It slept so long that the version after the one that it knows may be gone.
	w.update(l, first.Owner(), "c")
	w.update(l, first.Owner(), "d")
	w.delete(4)
	w.ahead.Store(int64(13 * time.Hour))
	newest(5)
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(6), Before: faultstore.Status(503), Count: 1})
	if m, err := f.Newest(t.Context()); err == nil {
		t.Errorf("a failed probe gave %+v", m)
	}
}

// S01: a version that is gone when it is read is looked for again.
func TestS01_VersionVanishesAfterList(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	w.claim(l)
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(1), Before: faultstore.Status(404), Count: 2})
	if m := w.newest(l); m.Version != 1 {
		t.Errorf("newest %+v", m)
	}
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(1), Before: faultstore.Status(404), Count: -1})
	if m, err := l.Newest(t.Context()); err == nil {
		t.Errorf("newest %+v", m)
	}
}

// TestS04_ListingOrderChangesNothing, nor do objects that are listed twice, pages
// of others, or files of other programs.
func TestS04_ListingOrderChangesNothing(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	own := w.claim(l).Owner()
	for range 40 {
		w.update(l, own, "a")
	}
	for _, v := range []uint64{3, 4, 11} { // recycled, or by an operator
		w.delete(v)
	}
	for _, name := range []string{
		Name(0), Name(99) + ".tmp", "old/" + Name(98), "README", "97.binpb", strings.Repeat("1", 64), hintName + "~", strings.ToUpper(Name(96)),
	} {
		if err := w.mem.Put(t.Context(), dir+name, objstore.Body{[]byte("not ours")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"_mem_wal/s2/manifest/", "_mem_wal/s/manifest2/", "_mem_wal/s/wal/"} {
		if err := w.mem.Put(t.Context(), other+Name(90), objstore.Body{[]byte("not ours")}); err != nil {
			t.Fatal(err)
		}
	}
	want := w.newest(l)
	if want.Version != 41 || want.oldest != 12 {
		t.Fatalf("newest is %d, reached from %d on; want 41, from 12 on", want.Version, want.oldest)
	}
	versions := w.versions()
	if len(versions) != 38 || !slices.IsSorted(versions) {
		t.Fatalf("versions %v", versions)
	}
	for seed := range uint64(20) {
		f := faultstore.New(w.mem, seed)
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Count: -1, Shuffle: true})
		shuffled := New(f, dir, &Options{Now: w.now})
		if got, err := shuffled.versions(t.Context()); err != nil || !slices.Equal(got, versions) {
			t.Fatalf("seed %d: versions %v, %v\nwant %v", seed, got, err, versions)
		}
		if got := w.newest(shuffled); !equal(got, want) || got.oldest != want.oldest {
			t.Errorf("seed %d: newest is %d, reached from %d on", seed, got.Version, got.oldest)
		}
		if err := shuffled.Check(t.Context(), own); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if got := f.Injected(); got[faultstore.FaultUnorderedList] != 3 || got[faultstore.FaultDoubledList] != 3 {
			t.Errorf("seed %d: the listings were not in disorder: %v", seed, got)
		}
		// A listing that breaks off is no listing.
		f.Clear()
		f.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpList}, Shuffle: true, After: faultstore.Status(500)})
		if got, err := shuffled.Newest(t.Context()); err == nil {
			t.Errorf("half a listing gave version %d", got.Version)
		}
	}
}

// F05: the hint may be missing, stale or garbage.
func TestF05_HintIsNotNeeded(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	own := w.claim(l).Owner()
	w.update(l, own, "a")
	if hint, err := w.mem.Get(t.Context(), dir+hintName); err != nil || string(hint) != `{"version":2}` {
		t.Errorf("hint %q, %v", hint, err)
	}
	for _, hint := range []string{"", "garbage", `{"version":1}`, `{"version":99}`, `{"version":-1}`} {
		if err := w.mem.Put(t.Context(), dir+hintName, objstore.Body{[]byte(hint)}); err != nil {
			t.Fatal(err)
		}
		if m := w.newest(w.log()); m.Version != 2 {
			t.Errorf("hint %q: newest %d", hint, m.Version)
		}
	}
	if err := w.mem.Delete(t.Context(), dir+hintName); err != nil {
		t.Fatal(err)
	}
	if m := w.newest(w.log()); m.Version != 2 {
		t.Errorf("no hint: newest %d", m.Version)
	}
	// A hint that cannot be written keeps nobody from committing.
	w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPut}, Before: faultstore.Status(403), Count: -1})
	w.update(l, own, "b")
}

// F06: no gaps; a change that was built on an outdated version is built again.
func TestF06_OutdatedBaseIsRebuilt(t *testing.T) {
	w := newWorld(t)
	a, b := w.log(), w.log()
	own := w.claim(a).Owner()
	calls := 0
	m, err := a.Update(t.Context(), own, func(m *Manifest) error {
		if calls++; calls == 1 {
			w.update(b, own, "b")
		}
		return note("a")(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 2 || m.Version != 3 || m.Annotations["a"] == nil || m.Annotations["b"] == nil {
		t.Errorf("%d calls, %+v", calls, m)
	}
	if got := w.versions(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("versions %v", got)
	}
}

// F06: what lies below the contiguous suffix is garbage.
func TestF06_SuffixStart(t *testing.T) {
	for _, tt := range []struct {
		listed []uint64
		top    uint64
		want   uint64
	}{
		{nil, 1, 1}, {[]uint64{1}, 1, 1}, {[]uint64{1, 2, 3}, 3, 1}, {[]uint64{1, 3, 4}, 4, 3},
		{[]uint64{5}, 5, 5}, {[]uint64{1, 2, 9}, 9, 9}, {[]uint64{1, 2, 3}, 5, 1}, {[]uint64{1, 3}, 4, 3},
	} {
		if got := suffixStart(tt.listed, tt.top); got != tt.want {
			t.Errorf("suffixStart(%v, %d) = %d, want %d", tt.listed, tt.top, got, tt.want)
		}
	}
}

// F07: concurrent commits through one handle all land.
func TestF07_ConcurrentUpdatesAllLand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.log()
		own := w.claim(l).Owner()
		const writers = 8
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { w.update(l, own, fmt.Sprint(i)) })
		}
		wg.Wait()
		m := w.newest(l)
		if len(m.Annotations) != writers || m.Version != writers+1 {
			t.Errorf("%d changes in version %d", len(m.Annotations), m.Version)
		}
	})
}

// F09: the own commit whose reply was lost is recognised, not taken for a peer's.
func TestF09_LostReplyIsRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.log()
		put := []objstore.Op{objstore.OpPutIfAbsent}
		w.store.Add(faultstore.Rule{Ops: put, After: faultstore.Status(500)})
		m := w.claim(l)
		if m.Epoch != 1 || m.Version != 1 || len(w.versions()) != 1 {
			t.Errorf("claim %+v", m)
		}
		// The reply is lost, and so is that of the read that would resolve it.
		w.store.Add(faultstore.Rule{Ops: put, After: faultstore.Status(500)})
		w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: dir + Name(2), Skip: 1, Before: faultstore.Status(500), Count: 2})
		if u := w.update(l, m.Owner(), "a"); u.Version != 2 || len(w.versions()) != 2 {
			t.Errorf("update %+v", u)
		}
		// Not applied at all: the same version is put again.
		w.store.Add(faultstore.Rule{Ops: put, Before: faultstore.Status(500), Count: 3})
		if u := w.update(l, m.Owner(), "b"); u.Version != 3 {
			t.Errorf("update %+v", u)
		}
		w.store.Add(faultstore.Rule{Ops: put, Before: faultstore.Status(409), Count: 3})
		if u := w.update(l, m.Owner(), "c"); u.Version != 4 {
			t.Errorf("update %+v", u)
		}
	})
}

// F15: a commit that cannot be resolved says so; one that was certainly not
// applied does not.
func TestF15_UnresolvedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.log()
		own := w.claim(l).Owner()
		remove := w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Before: faultstore.Status(500), Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := l.Update(ctx, own, note("a"))
		var unresolved *UnresolvedError
		if !errors.As(err, &unresolved) || unresolved.Version != 2 || !errors.Is(err, ErrUnresolved) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if ctx.Err() == nil {
			t.Error("gave up before the context ended")
		}
		remove()
		for _, status := range []int{403, 503} {
			remove = w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Before: faultstore.Status(status), Count: -1})
			if _, err := l.Update(t.Context(), own, note("a")); err == nil || errors.Is(err, ErrUnresolved) {
				t.Errorf("status %d: %v", status, err)
			}
			remove()
		}
	})
}

// F08: a sealed shard refuses claims; sealing stops the running writer; it can be undone.
func TestF08_SealedShard(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	own := w.claim(l).Owner()
	seal := func(s Status) func(*Manifest) (*Manifest, error) {
		return func(m *Manifest) (*Manifest, error) { m = m.Clone(); m.Status = s; return m, nil }
	}
	sealed, err := l.ClaimSealed(t.Context(), nil, seal(Sealed))
	if err != nil || sealed.Epoch != 2 {
		t.Fatalf("%+v, %v", sealed, err)
	}
	if _, err := l.Update(t.Context(), own, note("a")); !errors.Is(err, ErrFenced) {
		t.Errorf("the old writer: %v", err)
	}
	if _, err := l.Claim(t.Context(), nil, next); !errors.Is(err, ErrSealed) {
		t.Errorf("claim of a sealed shard: %v", err)
	}
	if m, err := l.ClaimSealed(t.Context(), nil, seal(Sealed)); err != nil || m.Epoch != 3 || m.Status != Sealed {
		t.Errorf("sealing again: %+v, %v", m, err)
	}
	if m, err := l.ClaimSealed(t.Context(), nil, seal(Active)); err != nil || m.Epoch != 4 {
		t.Errorf("unseal: %+v, %v", m, err)
	}
	if m := w.claim(l); m.Epoch != 5 {
		t.Errorf("claim after unsealing: %+v", m)
	}
}

// F10: a writer that was fenced stays fenced, and is told by whom.
func TestF10_FencedStaysFenced(t *testing.T) {
	w := newWorld(t)
	a, b := w.log(), w.log()
	ours := w.claim(a).Owner()
	if err := a.Check(t.Context(), ours); err != nil {
		t.Fatal(err)
	}
	theirs := w.claim(b).Owner()
	for range 2 {
		var fenced *FencedError
		if err := a.Check(t.Context(), ours); !errors.As(err, &fenced) || fenced.Ours != ours || fenced.Theirs != theirs {
			t.Errorf("check: %v", err)
		}
		if _, err := a.Update(t.Context(), ours, note("a")); !errors.Is(err, ErrFenced) {
			t.Errorf("update: %v", err)
		}
	}
	// The same epoch of another claim is not ours.
	if err := a.Check(t.Context(), Owner{Epoch: theirs.Epoch, ClaimID: ours.ClaimID}); !errors.Is(err, ErrFenced) {
		t.Errorf("same epoch, other claim: %v", err)
	}
	if err := a.Check(t.Context(), Owner{Epoch: theirs.Epoch}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no claim: %v", err)
	}
	// Consumers do not care who writes.
	if _, err := a.UpdateAny(t.Context(), note("c")); err != nil {
		t.Errorf("consumer: %v", err)
	}
}

// A claim that meets another begins again with the newest version.
func TestConflictingClaimStartsOver(t *testing.T) {
	w := newWorld(t)
	a, b := w.log(), w.log()
	w.claim(a)
	var seen []uint64
	m, err := a.Claim(t.Context(), nil, func(cur *Manifest) (*Manifest, error) {
		if seen = append(seen, cur.Version); len(seen) == 1 {
			w.claim(b)
		}
		return cur.Clone(), nil
	})
	if err != nil || m.Epoch != 3 || m.Version != 3 || !slices.Equal(seen, []uint64{1, 2}) {
		t.Errorf("%+v, %v, built on %v", m, err, seen)
	}
}

// Damage is reported with the version, and nothing is built on it.
func TestP02_DamagedVersionIsNamed(t *testing.T) {
	w := newWorld(t)
	l := w.log()
	m := w.claim(l)
	data := encode(t, m)
	data[10] ^= 1
	wrong := m.Clone()
	wrong.Version = 3
	for _, bad := range [][]byte{data, {}, []byte("garbage"), encode(t, wrong)} {
		w.delete(2)
		if _, err := w.mem.PutIfAbsent(t.Context(), dir+Name(2), objstore.Body{bad}); err != nil {
			t.Fatal(err)
		}
		var corrupt *CorruptError
		if _, err := l.Newest(t.Context()); !errors.As(err, &corrupt) || corrupt.Version != 2 || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("%v", err)
		}
		if _, err := l.Claim(t.Context(), nil, next); !errors.Is(err, ErrCorrupt) {
			t.Errorf("claim: %v", err)
		}
	}
}

// putLegacy writes a version as another program does.
func (w *world) putLegacy(p *pb.ShardManifest) {
	w.t.Helper()
	data, err := proto.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.mem.PutIfAbsent(w.t.Context(), dir+Name(p.Version), objstore.Body{data}); err != nil {
		w.t.Fatal(err)
	}
}

// F17: a manifest rewritten by a program that dropped our fields is refused
// before any claim.
func TestF17_ForeignRewriteIsRefused(t *testing.T) {
	refused := func(w *world, l *Log) {
		t.Helper()
		before := w.versions()
		built := false
		_, err := l.Claim(t.Context(), nil, func(m *Manifest) (*Manifest, error) { built = true; return m.Clone(), nil })
		if !errors.Is(err, ErrForeignWriter) || built {
			t.Errorf("claim: %v, built %t", err, built)
		}
		if got := w.versions(); !slices.Equal(got, before) {
			t.Errorf("versions %v", got)
		}
	}
	for _, own := range []int{1, 20} { // versions of ours before the foreign ones
		w := newWorld(t)
		l := w.log()
		m := w.claim(l)
		for i := range own - 1 {
			w.update(l, m.Owner(), fmt.Sprint(i))
		}
		for i := range 20 {
			w.putLegacy(&pb.ShardManifest{Version: uint64(own + 1 + i), WriterEpoch: 2, CurrentGeneration: 1})
		}
		refused(w, l)
		if err := l.Check(t.Context(), m.Owner()); !errors.Is(err, ErrFenced) || !errors.Is(err, ErrForeignWriter) {
			t.Errorf("the old writer: %v", err)
		}
	}
	w := newWorld(t)
	w.putLegacy(&pb.ShardManifest{Version: 1, WriterEpoch: 1, CurrentGeneration: 1})
	if _, err := w.log().UpdateAny(t.Context(), note("a")); !errors.Is(err, ErrInvalid) {
		t.Errorf("consumer of a legacy shard: %v", err)
	}
	// Somebody has claimed it since newest was read: nothing was lost.
	newest, err := w.log().Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.claim(w.log())
	if err := w.log().CheckForeign(t.Context(), newest); err != nil {
		t.Errorf("a claim that followed: %v", err)
	}
	// No trace at all: a legacy shard, which build may adopt.
	w = newWorld(t)
	w.putLegacy(&pb.ShardManifest{Version: 1, WriterEpoch: 1, CurrentGeneration: 1})
	if m, err := w.log().Claim(t.Context(), nil, next); err != nil || m.Legacy || m.Epoch != 2 || m.Version != 2 {
		t.Errorf("adoption: %+v, %v", m, err)
	}
}

// The log that LanceDB wrote: its newest version is found, and is a legacy one.
func TestLanceFixtureNewest(t *testing.T) {
	w := newWorld(t)
	files, err := os.ReadDir(lanceDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(lanceDir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.mem.Put(t.Context(), dir+f.Name(), objstore.Body{data}); err != nil {
			t.Fatal(err)
		}
	}
	l := w.log()
	m := w.newest(l)
	if m.Version != 3 || m.Epoch != 2 || m.Generation != 1 || len(m.Flushed) != 0 || !m.Legacy || m.LastSeen != 4 {
		t.Errorf("%+v", m)
	}
	if err := l.CheckForeign(t.Context(), m); err != nil {
		t.Errorf("%v", err)
	}
}

func TestFencedErrorOmitsWhatIsNotKnown(t *testing.T) {
	err := FencedBy(3, 4)
	if got := err.Error(); got != "fenced: our claim of epoch 3 was followed by epoch 4" || !errors.Is(err, ErrFenced) {
		t.Error(got)
	}
	err.Theirs.ClaimID = id(8)
	if got, want := err.Error(), "fenced: our claim of epoch 3 was followed by epoch 4 ("+id(8).String()+")"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A store that ignores the condition, or is missing, fails the same way again.
func TestFinalFailuresAreNotRepeated(t *testing.T) {
	for _, class := range []error{objstore.ErrConditionIgnored, objstore.ErrUnusable, objstore.ErrInvalid, objstore.ErrPermission} {
		w := newWorld(t)
		w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Before: class, Count: -1})
		if _, err := w.log().Claim(t.Context(), nil, next); !errors.Is(err, class) || errors.Is(err, ErrUnresolved) {
			t.Errorf("%v: %v", class, err)
		}
		puts := 0
		for _, r := range w.store.Requests() {
			if r.Op == objstore.OpPutIfAbsent {
				puts++
			}
		}
		if puts != 1 {
			t.Errorf("%v: %d puts", class, puts)
		}
	}
}
