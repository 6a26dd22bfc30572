package memwal

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/objstore"
)

// Whatever takes a shard over, or gives it back, meets one fault at each of its
// requests in turn. It then succeeds or says so, and whoever comes next finds every
// row that was acknowledged, once, and can write.

// way is a process's way to a store: one request on it meets a fault.
type way struct {
	objstore.Store
	arm    func(k int64) // the k-th request from now on, counted from 1
	hit    func() bool   // there was one
	arrive func()        // what was left on the way arrives
}

// wayFault makes a way. One that passes is one that a retry mends.
type wayFault struct {
	name   string
	passes bool
	to     func(inner objstore.Store) *way
}

// byAction is a way on which one request goes through an action.
func byAction(do func(*way) action) func(objstore.Store) *way {
	return func(inner objstore.Store) *way {
		s := over(inner)
		var n, k atomic.Int64
		k.Store(math.MaxInt64)
		w := &way{Store: s, arrive: func() {}}
		act := do(w)
		s.on("", "", always, func(ctx context.Context, apply func() error) error {
			if n.Add(1) == k.Load() {
				return act(ctx, apply)
			}
			return apply()
		})
		w.arm = func(at int64) { k.Store(n.Load() + at) }
		w.hit = func() bool { return n.Load() >= k.Load() }
		return w
	}
}

func plain(a action) func(*way) action { return func(*way) action { return a } }

// byCrash is a way that ends at one request.
func byCrash(mode string) func(objstore.Store) *way {
	return func(inner objstore.Store) *way {
		c := &crash{Store: inner, k: math.MaxInt64, mode: mode}
		return &way{
			Store: c, hit: c.dead, arrive: c.arrive,
			arm: func(k int64) { c.k = k; c.n.Store(0) },
		}
	}
}

var wayFaults = []wayFault{
	{"503", true, byAction(plain(failBefore(errTransient)))},
	{"409", true, byAction(plain(failBefore(&objstore.Error{Op: "test", Class: objstore.ErrConflict, Err: errBroken})))},
	{"lost reply", true, byAction(plain(failAfter(errAmbiguous)))},
	{"applied and never answered", true, byAction(plain(func(ctx context.Context, apply func() error) error {
		_ = apply()
		<-ctx.Done()
		return ctx.Err()
	}))},
	{"answered, and arrives once more", true, byAction(func(w *way) action {
		return func(_ context.Context, apply func() error) error {
			err := apply()
			w.arrive = sync.OnceFunc(func() { _ = apply() })
			return err
		}
	})},
	{"lost, and arrives in the end", false, byAction(func(w *way) action {
		return func(ctx context.Context, apply func() error) error {
			w.arrive = sync.OnceFunc(func() { _ = apply() })
			<-ctx.Done()
			return ctx.Err()
		}
	})},
	{"404", false, byAction(plain(func(_ context.Context, apply func() error) error {
		_ = apply()
		return &objstore.Error{Op: "test", Class: objstore.ErrNotExist, Err: errBroken}
	}))},
	{"crash before", false, byCrash("before")},
	{"crash after", false, byCrash("after")},
	{"crash, and the request arrives in the end", false, byCrash("late")},
}

// stride is the distance between the requests that meet a fault.
func stride() int64 {
	if testing.Short() {
		return 4
	}
	return 1
}

// wornShard makes a shard with a past: dead entries among the live ones, epochs
// without rows, a seal, a claim without a fence, and a last writer that died with
// puts on their way, of which one has landed above an empty position. rows is how
// many it has. It needs the bubble of a synctest.
func wornShard(t *testing.T) (all map[string]string, rows int) {
	t.Helper()
	inner := objstore.NewMemory()
	put := func(w *Writer, n int) {
		for range n {
			mustPut(t, w, seq(t, int64(rows), 1))
			rows++
		}
	}
	first := dieInFlight(t, inner) // row 0
	rows = 1
	w := mustOpen(t, inner, plainOptions()) // its fence is at 3
	first.land(t, 4, 6)
	put(w, 2)
	if err := w.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(w, 2)
	crashWriter(w)
	mustSeal(t, inner)
	mustUnseal(t, inner)
	w = mustOpen(t, inner, plainOptions())
	put(w, 1)
	mustClose(t, w)
	dying := over(inner)
	dying.on(objstore.OpPutIfAbsent, walPart, always, failBefore(errCrashed))
	if _, err := Open(t.Context(), dying, testShard, testSchema, plainOptions()); !errors.Is(err, errCrashed) {
		t.Fatalf("the claimer that dies before its fence: %v", err)
	}
	last := newLate(inner)
	w = mustOpen(t, last, plainOptions())
	put(w, 1)
	last.keep()
	log := logOf(t, inner)
	end := log[len(log)-1].pos
	for i := range int64(3) {
		mustPutAsync(t, w, seq(t, 900+i, 1))
		synctest.Wait()
	}
	last.land(t, end+2)
	w.Abort()
	return contents(t, inner, ""), rows
}

func TestWornShardIsWorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, rows := wornShard(t)
		s := copyOf(t, all)
		w := mustOpen(t, s, plainOptions())
		checkRows(t, w, wantSeq(0, rows))
		checkShape(t, s, "F1 d1 F2 d1 d2 d1 d2 d2 d2 F3 F4 F5 d5 F7 d7 F8 d7")
		if st := w.Stats(); st.Memtables != 2 || st.Open.Dead != 2 {
			t.Errorf("%d memtables, %d dead entries below the fence", st.Memtables, st.Open.Dead)
		}
	})
}

// failOver is what a process does to a shard.
type failOver struct {
	name   string
	sealed bool // the shard is sealed before
	// do does it over s, calling arm where the faults are to begin. acked and issued
	// are how many rows were acknowledged and issued beyond those that were there.
	do func(t *testing.T, s objstore.Store, arm func(), rows int) (acked, issued int, err error)
	// check looks at what it left when it succeeded.
	check func(t *testing.T, s objstore.Store)
}

// checkFence fails unless the newest claim has its fence.
func checkFence(t *testing.T, s objstore.Store) {
	t.Helper()
	m := newestManifest(t, s)
	if !slices.ContainsFunc(logOf(t, s), func(o walObject) bool { return o.header.Fence && o.header.Epoch == m.Epoch }) {
		t.Errorf("epoch %d has no fence: %s", m.Epoch, shape(logOf(t, s)))
	}
}

func checkStatus(want manifest.Status) func(*testing.T, objstore.Store) {
	return func(t *testing.T, s objstore.Store) {
		t.Helper()
		checkFence(t, s)
		if m := newestManifest(t, s); m.Status != want {
			t.Errorf("the shard is %v, want %v", m.Status, want)
		}
	}
}

var failOvers = []failOver{
	{"open", false, func(t *testing.T, s objstore.Store, arm func(), rows int) (acked, issued int, err error) {
		arm()
		w, err := Open(t.Context(), s, testShard, testSchema, plainOptions())
		if err == nil {
			checkRows(t, w, wantSeq(0, rows))
			w.Abort()
		}
		return 0, 0, err
	}, checkFence},
	{"seal", false, func(t *testing.T, s objstore.Store, arm func(), _ int) (acked, issued int, err error) {
		arm()
		return 0, 0, SealShard(t.Context(), s, testShard, nil)
	}, checkStatus(manifest.Sealed)},
	{"unseal", true, func(t *testing.T, s objstore.Store, arm func(), _ int) (acked, issued int, err error) {
		arm()
		return 0, 0, UnsealShard(t.Context(), s, testShard, nil)
	}, checkStatus(manifest.Active)},
	{"put and close", false, func(t *testing.T, s objstore.Store, arm func(), rows int) (acked, issued int, err error) {
		w := mustOpen(t, s, plainOptions())
		arm()
		var tickets []*Ticket
		for i := range 3 {
			ticket, err := w.PutAsync(t.Context(), seq(t, int64(rows+i), 1))
			if err != nil {
				break
			}
			tickets = append(tickets, ticket)
		}
		err = w.Close(t.Context())
		for _, ticket := range tickets {
			if ticket.Wait(t.Context()) == nil {
				acked++
			}
		}
		return acked, len(tickets), err
	}, checkFence},
}

func TestR13_FailOverAtEachRequest(t *testing.T) {
	var all map[string]string
	var rows int
	synctest.Test(t, func(t *testing.T) { all, rows = wornShard(t) })
	for _, op := range failOvers {
		for _, f := range wayFaults {
			t.Run(op.name+"/"+f.name, func(t *testing.T) {
				for k := int64(1); ; k += stride() {
					hit := false
					synctest.Test(t, func(t *testing.T) { hit = failOverAt(t, all, rows, op, f, k) })
					if t.Failed() {
						t.Fatalf("at request %d", k)
					}
					if !hit {
						if k < 8 {
							t.Errorf("it makes %d requests only", k-1)
						}
						return
					}
				}
			})
		}
	}
}

func failOverAt(t *testing.T, all map[string]string, rows int, op failOver, f wayFault, k int64) (hit bool) {
	inner := copyOf(t, all)
	if op.sealed {
		mustSeal(t, inner)
	}
	way := f.to(inner)
	acked, issued, err := op.do(t, way, func() { way.arm(k) }, rows)
	hit = way.hit()
	switch {
	case err == nil:
		op.check(t, inner)
	case !hit:
		t.Errorf("failed without a fault: %v", err)
	case f.passes:
		t.Errorf("one passing fault: %v", err)
	case errors.Is(err, ErrHole), errors.Is(err, ErrCorrupt), errors.Is(err, ErrFenced), errors.Is(err, ErrForeignWriter):
		t.Errorf("the fault is taken for damage, or for somebody else: %v", err)
	}
	// Somebody else goes on, and then everything arrives that was on its way.
	mustUnseal(t, inner)
	w := mustOpen(t, inner, plainOptions())
	now := len(rowsOf(t, w))
	if checkRows(t, w, wantSeq(0, now)); now < rows+acked || now > rows+issued {
		t.Errorf("%d rows are there; %d were acknowledged, %d issued", now, rows+acked, rows+issued)
	}
	mustPut(t, w, seq(t, int64(now), 1))
	way.arrive()
	mustPut(t, w, seq(t, int64(now+1), 1))
	mustClose(t, w)
	recovered(t, inner, now+2, now+2)
	return hit
}

// The same for a log that another program began, which may be adopted several
// times, or not at all.
func TestR13_AdoptionFailsAtEachRequest(t *testing.T) {
	all := contents(t, fixture(t, "lance"), "")
	for _, f := range wayFaults {
		t.Run(f.name, func(t *testing.T) {
			for k := int64(1); ; k += stride() {
				hit := false
				synctest.Test(t, func(t *testing.T) {
					inner := copyOf(t, all)
					way := f.to(inner)
					way.arm(k)
					w, err := Open(t.Context(), way, testShard, fixtureSchema, adopting(nil))
					hit = way.hit()
					switch {
					case err == nil:
						checkSame(t, "adopted", byKey(t, w), fixtureRows)
						checkFence(t, inner)
						w.Abort()
					case !hit || f.passes:
						t.Errorf("adopt: %v", err)
					case errors.Is(err, ErrHole), errors.Is(err, ErrCorrupt), errors.Is(err, ErrFenced):
						t.Errorf("the fault is taken for damage, or for somebody else: %v", err)
					}
					w = openAs(t, inner, fixtureSchema, adopting(nil))
					checkSame(t, "adopted again", byKey(t, w), fixtureRows)
					if err := w.Put(t.Context(), fixtureBatch(t, 8, "ours", 8)); err != nil {
						t.Error(err)
					}
					way.arrive()
					if err := w.Put(t.Context(), fixtureBatch(t, 9, "ours", 9)); err != nil {
						t.Error(err)
					}
					mustClose(t, w)
					want := append(slices.Clone(fixtureRows), "8|ours|8", "9|ours|9")
					checkSame(t, "opened again", byKey(t, openAs(t, inner, fixtureSchema, &Options{PrimaryKey: []string{"id"}})), want)
				})
				if t.Failed() {
					t.Fatalf("at request %d", k)
				}
				if !hit {
					if k < 15 {
						t.Errorf("an adoption makes %d requests only", k-1)
					}
					return
				}
			}
		})
	}
}
