package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// What commits of generations, and the cleaning of their folders, ask of a Log.
// Nothing of memwal flushes generations yet, so both are played here.

const shardDir = "_mem_wal/s/"

// flushed is the change of a commit that names a generation: idempotent by
// generation and path.
func flushed(generation uint64, path string) func(*Manifest) error {
	return func(m *Manifest) error {
		for _, g := range m.Flushed {
			if g.Generation == generation && g.Path == path {
				return ErrUnchanged
			}
		}
		if m.Generation != generation {
			return fmt.Errorf("generation %d was committed by somebody else: %d is next", generation, m.Generation)
		}
		m.Flushed = append(m.Flushed, Generation{Generation: generation, Path: path})
		m.Generation = generation + 1
		m.SetFloor(Floor{Plane: PlaneRows, Tuple: wal.Tuple{Position: 10 * generation, NextRow: 100 * generation, Generation: generation}})
		return nil
	}
}

// upload puts a generation's folder, which comes before its commit.
func (w *world) upload(path string) {
	w.t.Helper()
	if err := w.mem.Put(w.t.Context(), shardDir+path+"/data.parquet", objstore.Body{[]byte(path)}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) folders() []string {
	w.t.Helper()
	f, err := foldersOf(w.t.Context(), w.mem)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func foldersOf(ctx context.Context, s objstore.Store) ([]string, error) {
	found := make(map[string]bool)
	for o, err := range s.List(ctx, shardDir) {
		if err != nil {
			return nil, err
		}
		if folder, _, ok := strings.Cut(strings.TrimPrefix(o.Key, shardDir), "/"); ok && strings.Contains(folder, "_gen_") {
			found[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// wantReferenced checks that each generation is named once, and has its folder.
func (w *world) wantReferenced(paths ...string) {
	w.t.Helper()
	var got []string
	for _, g := range w.newest(New(w.mem, dir, nil)).Flushed {
		got = append(got, g.Path)
		if !slices.Contains(w.folders(), g.Path) {
			w.t.Errorf("the manifest names %s, which is not there", g.Path)
		}
	}
	if !slices.Equal(got, paths) {
		w.t.Errorf("the manifest names %v, want %v", got, paths)
	}
}

// cleaner removes the folders of generations that are of no use to anybody. The
// order of its steps is what makes it safe in a process that was fenced, and does
// not know it yet.
type cleaner struct {
	store objstore.Store
	log   *Log
	own   Owner
	// held are the folders of the own tasks: those that are written now (0), and
	// those whose commit is unresolved, with the version that it was to be.
	held map[string]uint64

	between func()        // between the steps
	broken  cleanerDefect // what a test of the tests leaves out
}

type cleanerDefect string

const (
	manifestFirst cleanerDefect = "reads the manifest before it lists"
	epochAlone    cleanerDefect = "compares epochs alone"
	byHint        cleanerDefect = "trusts the hint"
	holdsNothing  cleanerDefect = "cleans what its own commits may still name"
)

func (c *cleaner) clean(ctx context.Context) error {
	between := func() {
		if c.between != nil {
			c.between()
		}
	}
	var folders []string
	var m *Manifest
	var err error
	list := func() error { folders, err = foldersOf(ctx, c.store); return err }
	look := func() error { m, err = c.newest(ctx); return err }
	steps := []func() error{list, look}
	if c.broken == manifestFirst {
		slices.Reverse(steps)
	}
	if err := steps[0](); err != nil {
		return err
	}
	between()
	if err := steps[1](); err != nil {
		return err
	}
	for _, f := range folders {
		version, held := c.held[f]
		switch {
		case slices.ContainsFunc(m.Flushed, func(g Generation) bool { return g.Path == f }):
		case held && c.broken != holdsNothing && (version == 0 || m.Version < version):
			// Written now, or named by a commit that can land still: nobody has its number.
		default:
			if err := c.store.Delete(ctx, shardDir+f+"/data.parquet"); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest reads the manifest, which must be of the own claim.
func (c *cleaner) newest(ctx context.Context) (*Manifest, error) {
	switch c.broken {
	case epochAlone:
		m, err := c.log.Newest(ctx)
		if err == nil && m.Epoch != c.own.Epoch {
			err = &FencedError{Ours: c.own, Theirs: m.Owner()}
		}
		return m, err
	case byHint:
		hint, err := c.store.Get(ctx, dir+hintName)
		if err != nil {
			return nil, err
		}
		var v uint64
		if _, err := fmt.Sscanf(string(hint), `{"version":%d}`, &v); err != nil {
			return nil, err
		}
		m, err := c.log.read(ctx, v)
		if err != nil {
			return nil, err
		}
		return m, checkOwner(m, c.own)
	}
	return c.log.Owned(ctx, c.own)
}

// F15: whatever becomes of the reply to a commit of a generation, it is recognised,
// and the generation is named once. Its folder stays.
func TestF15_CommitOfAGenerationAppliesOnce(t *testing.T) {
	put := []objstore.Op{objstore.OpPutIfAbsent}
	second := dir + Name(2)
	peer := func(w *world, key string) func(faultstore.Request) {
		return func(faultstore.Request) {
			if _, err := New(w.mem, dir, nil).UpdateAny(context.Background(), note(key)); err != nil {
				w.t.Error(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		faults  func(w *world)
		version uint64 // that names it first
		built   int    // times that the commit is built; 0: once
	}{
		"no fault": {func(*world) {}, 2, 0},
		"not applied": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, Before: faultstore.Status(500), Count: 3})
		}, 2, 0},
		"conflict": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, Before: faultstore.Status(409), Count: 3})
		}, 2, 0},
		"reply lost": {func(w *world) { w.store.Add(faultstore.Rule{Ops: put, Key: second, After: faultstore.Status(500)}) }, 2, 0},
		"lost thrice": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, After: faultstore.Status(500), Count: 3})
		}, 2, 0},
		"sent twice": {func(w *world) { w.store.Add(faultstore.Rule{Ops: put, Key: second, Duplicate: true}) }, 2, 0},
		"reply and read lost": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, After: faultstore.Status(500)})
			w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: second, Skip: 1, Before: faultstore.Status(500), Count: 2})
		}, 2, 0},
		"reply lost, others build on it": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, After: faultstore.Status(500), OnApplied: func(r faultstore.Request) { peer(w, "a")(r); peer(w, "b")(r) }})
		}, 2, 0},
		"reply lost, and the version seems gone": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, After: faultstore.Status(500)})
			w.store.Add(faultstore.Rule{Ops: []objstore.Op{objstore.OpGet}, Key: second, Skip: 1, Before: faultstore.Status(404)})
		}, 2, 2},
		"not applied, and somebody takes the number": {func(w *world) {
			w.store.Add(faultstore.Rule{Ops: put, Key: second, Before: faultstore.Status(500), OnRequest: peer(w, "a")})
		}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.log()
				own := w.claim(l).Owner()
				w.upload("0a_gen_1")
				tc.faults(w)
				built := 0
				m, err := l.Update(t.Context(), own, func(m *Manifest) error {
					built++
					return flushed(1, "0a_gen_1")(m)
				})
				if err != nil {
					t.Fatal(err)
				}
				if built != max(1, tc.built) {
					t.Errorf("built %d times: its own commit is taken for another one, or the other way round", built)
				}
				w.wantReferenced("0a_gen_1")
				if m.Generation != 2 || m.RowsFloor().Position != 10 {
					t.Errorf("generation %d, floor %d", m.Generation, m.RowsFloor().Position)
				}
				for _, v := range w.versions() {
					got, err := l.read(t.Context(), v)
					if err != nil {
						t.Fatal(err)
					}
					if want := v >= tc.version; (len(got.Flushed) == 1) != want || len(got.Flushed) > 1 {
						t.Errorf("version %d names %v", v, got.Flushed)
					}
				}
				// The task that did not hear of it tries again: nothing is left to do.
				before := len(w.versions())
				if _, err := l.Update(t.Context(), own, flushed(1, "0a_gen_1")); err != nil || len(w.versions()) != before {
					t.Errorf("again: %v, %d versions, were %d", err, len(w.versions()), before)
				}
				c := &cleaner{store: w.mem, log: l, own: own}
				if err := c.clean(t.Context()); err != nil {
					t.Error(err)
				}
				w.wantReferenced("0a_gen_1")
			})
		})
	}
}

// F15: a commit that may land still is unresolved, whatever the last attempt said,
// and whoever made the attempts. What it names stays until its number is taken.
func TestF15_FolderOfAnUnresolvedCommitStays(t *testing.T) {
	for name, tc := range map[string]struct {
		attempts int // that the store makes by itself; 0: it does not even time out, and the caller gives up
		last     int // status of the attempts after the one on the wire
		then     string
	}{
		"it lands":                      {0, 0, "lands"},
		"somebody takes its number":     {0, 0, "taken"},
		"then refused for good":         {1, 403, "lands"},
		"refused below the retries":     {3, 403, "lands"},
		"refused, and the number taken": {3, 403, "taken"},
	} {
		for _, broken := range []cleanerDefect{"", holdsNothing} {
			t.Run(name+string(broken), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					store := objstore.Store(w.store)
					if tc.attempts > 0 {
						store = objstore.WithRetry(store, objstore.RetryOptions{RequestTimeout: time.Second, MaxAttempts: tc.attempts})
					}
					l := New(store, dir, &Options{Now: w.now})
					own := w.claim(l).Owner()
					w.upload("0a_gen_1")
					wire := make(chan struct{})
					release := sync.OnceFunc(func() { close(wire) })
					defer release()
					put := []objstore.Op{objstore.OpPutIfAbsent}
					w.store.Add(faultstore.Rule{Ops: put, Key: dir + Name(2), Detach: true, Hold: wire})
					if tc.last > 0 {
						w.store.Add(faultstore.Rule{Ops: put, Key: dir + Name(2), Skip: 1, Before: faultstore.Status(tc.last), Count: -1})
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if tc.attempts == 0 {
						time.AfterFunc(time.Second, cancel)
					}
					_, err := l.Update(ctx, own, flushed(1, "0a_gen_1"))
					unresolved, ok := errors.AsType[*UnresolvedError](err)
					if !ok || unresolved.Version != 2 {
						t.Fatalf("update: %v, want an UnresolvedError of version 2", err)
					}
					c := &cleaner{store: w.mem, log: New(w.mem, dir, nil), own: own, broken: broken,
						held: map[string]uint64{"0a_gen_1": unresolved.Version}}
					w.upload("0b_gen_1") // of nobody
					if err := c.clean(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got, want := w.folders(), []string{"0a_gen_1"}; !slices.Equal(got, want) && broken == "" {
						t.Errorf("folders %v, want %v", got, want)
					}
					if tc.then == "taken" {
						w.update(New(w.mem, dir, nil), own, "somebody")
					}
					release()
					synctest.Wait()
					m := w.newest(l)
					if landed := len(m.Flushed) == 1; landed != (tc.then == "lands") {
						t.Fatalf("version %d names %v", m.Version, m.Flushed)
					}
					if broken != "" {
						if len(w.folders()) > 0 {
							t.Errorf("%q does no harm here", broken)
						}
						return
					}
					if err := c.clean(t.Context()); err != nil {
						t.Fatal(err)
					}
					if tc.then == "lands" {
						w.wantReferenced("0a_gen_1")
					} else if got := w.folders(); len(got) > 0 {
						t.Errorf("folders %v are left, whose commit can land no more", got)
					}
				})
			})
		}
	}
}

// F16: the cleaner of a process that was fenced, and does not know it, deletes
// nothing that its successor writes, wherever it stands.
func TestF16_CleanerOfAFencedProcess(t *testing.T) {
	type scene struct {
		w            *world
		a, b         *Log
		ours, theirs Owner
	}
	// takeover is what the successor does: it claims, and writes a generation that it
	// has not committed yet.
	takeover := func(s *scene) {
		s.theirs = s.w.claim(s.b).Owner()
		s.w.upload("0b_gen_1")
	}
	scenes := map[string]struct {
		before  func(s *scene) // the cleaner begins
		between func(s *scene) // it has taken its first step
		fenced  bool
	}{
		"fenced before":  {before: takeover, fenced: true},
		"fenced between": {between: takeover, fenced: true},
		"not fenced":     {},
		"the hint is late": {before: func(s *scene) {
			s.w.update(s.a, s.ours, "a") // writes the hint, a claim does not
			takeover(s)
		}, fenced: true},
		"fenced by an equal epoch": {before: func(s *scene) {
			takeover(s)
			// Its own claim had stalled, and has landed where a version was recycled: it
			// believes to own the epoch that its successor has.
			ours, err := s.a.read(s.w.t.Context(), 1)
			if err != nil {
				s.w.t.Fatal(err)
			}
			for i := range 3 {
				s.w.update(s.b, s.theirs, fmt.Sprint(i))
			}
			s.w.delete(1)
			s.w.delete(2)
			stale := ours.Clone()
			stale.Epoch, stale.ClaimID = 2, id(77)
			if err := prepare(ours, stale); err != nil {
				s.w.t.Fatal(err)
			}
			data := encode(s.w.t, stale)
			if _, err := s.w.mem.PutIfAbsent(s.w.t.Context(), dir+Name(2), objstore.Body{data}); err != nil {
				s.w.t.Fatal(err)
			}
		}, fenced: true},
	}
	run := func(t *testing.T, name string, broken cleanerDefect) (lost bool, err error) {
		tt := scenes[name]
		w := newWorld(t)
		s := &scene{w: w, a: w.log()}
		s.b = New(w.store, dir, nil)
		s.ours = w.claim(s.a).Owner()
		c := &cleaner{store: w.store, log: s.a, own: s.ours, broken: broken}
		w.upload("0a_gen_1") // nobody's
		if tt.before != nil {
			tt.before(s)
		}
		if name == "fenced by an equal epoch" {
			c.own = Owner{Epoch: 2, ClaimID: id(77)}
		}
		if tt.between != nil {
			c.between = func() { tt.between(s) }
		}
		err = c.clean(t.Context())
		if !tt.fenced {
			return slices.Contains(w.folders(), "0a_gen_1"), err
		}
		// The successor commits what it has written.
		if _, failed := s.b.Update(t.Context(), s.theirs, flushed(1, "0b_gen_1")); failed != nil {
			t.Fatal(failed)
		}
		return !slices.Contains(w.folders(), "0b_gen_1"), err
	}
	for name, tt := range scenes {
		t.Run(name, func(t *testing.T) {
			lost, err := run(t, name, "")
			if lost {
				t.Error("a folder is not as it should be")
			}
			if got := errors.Is(err, ErrFenced); got != tt.fenced || !tt.fenced && err != nil {
				t.Errorf("clean: %v", err)
			}
		})
	}
	// Each rule is there for one of the scenes: a cleaner without it does harm.
	for broken, scene := range map[cleanerDefect]string{
		manifestFirst: "fenced between", epochAlone: "fenced by an equal epoch", byHint: "the hint is late",
	} {
		t.Run(string(broken), func(t *testing.T) {
			if lost, err := run(t, scene, broken); !lost {
				t.Errorf("does no harm when %s: %v", scene, err)
			}
		})
	}
}

// F16: a look at the manifest that fails is no permission.
func TestF16_CleanerThatCannotLook(t *testing.T) {
	for _, op := range []objstore.Op{objstore.OpList, objstore.OpGet} {
		w := newWorld(t)
		l := w.log()
		c := &cleaner{store: w.mem, log: l, own: w.claim(l).Owner()}
		w.upload("0a_gen_1")
		remove := w.store.Add(faultstore.Rule{Ops: []objstore.Op{op}, Before: faultstore.Status(500), Count: -1})
		if err := c.clean(t.Context()); err == nil || len(w.folders()) != 1 {
			t.Errorf("%s: %v, folders %v", op, err, w.folders())
		}
		remove()
	}
}
