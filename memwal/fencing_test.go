package memwal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// errAmbiguous is the loss of a reply.
var errAmbiguous = &objstore.Error{Op: "test", Class: objstore.ErrAmbiguous, Err: errors.New("injected")}

// writeOnce reports every request that would replace an object of the log.
type writeOnce struct {
	objstore.Store
	t testing.TB
}

func (s writeOnce) Put(ctx context.Context, key string, body objstore.Body) error {
	if strings.HasSuffix(key, ".arrow") || strings.HasSuffix(key, ".binpb") {
		s.t.Errorf("%s was put without the condition", key)
	}
	return s.Store.Put(ctx, key, body)
}

func (s writeOnce) Delete(ctx context.Context, key string) error {
	s.t.Errorf("%s was deleted", key)
	return s.Store.Delete(ctx, key)
}

// jitter delays requests on the way there and on the way back. r becomes its own.
func jitter(r *rand.Rand, limit time.Duration) action {
	var mu sync.Mutex
	draw := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.Int64N(int64(limit)))
	}
	return func(ctx context.Context, apply func() error) error {
		if err := delay(draw())(ctx, apply); err != nil {
			return err
		}
		time.Sleep(draw())
		return nil
	}
}

// Four writers open the shard about the same time, over a store of changing
// latency, and put until they are fenced.
func TestF01_WritersNeverOverwriteEachOther(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { raceWriters(t, seed) })
		})
	}
}

func raceWriters(t *testing.T, seed uint64) {
	const writers, puts = 4, 6
	inner := writeOnce{objstore.NewMemory(), t}
	acked := make([]int, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			time.Sleep(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
			s := over(inner)
			s.on("", "", always, jitter(rand.New(rand.NewPCG(seed, uint64(writers+i))), 40*time.Millisecond))
			w, err := Open(t.Context(), s, testShard, testSchema, plainOptions())
			if err != nil {
				if !errors.Is(err, ErrFenced) {
					t.Errorf("writer %d: open: %v", i, err)
				}
				return
			}
			defer w.Abort()
			var tickets []*Ticket
			for j := range puts {
				ticket, err := w.PutAsync(t.Context(), seq(t, int64(1000*i+2*j), 2))
				if err != nil {
					break
				}
				tickets = append(tickets, ticket)
				time.Sleep(time.Duration(r.Int64N(int64(50 * time.Millisecond))))
			}
			for _, ticket := range tickets {
				if err := ticket.Wait(t.Context()); err != nil {
					if !errors.Is(err, ErrFenced) {
						t.Errorf("writer %d: put: %v", i, err)
					}
					break
				}
				acked[i] += 2
			}
		})
	}
	wg.Wait()
	w := mustOpen(t, inner, plainOptions())
	got := make([][]testRow, writers)
	for _, row := range rowsOf(t, w) {
		got[row.id/1000] = append(got[row.id/1000], row)
	}
	for i, rows := range got {
		if len(rows) < acked[i] || !slices.Equal(rows, wantSeq(int64(1000*i), len(rows))) {
			t.Errorf("writer %d had %d rows acknowledged, found are %v", i, acked[i], rows)
		}
	}
	checkVersions(t, inner, len(versionsOf(t, inner)))
	checkEpochsRise(t, inner)
}

// checkEpochsRise fails unless live fences have rising epochs, one fence each.
func checkEpochsRise(t testing.TB, s objstore.Store) {
	t.Helper()
	last := uint64(0)
	for _, o := range logOf(t, s) {
		if o.header.Fence {
			if o.header.Epoch <= last {
				t.Errorf("position %d is a fence of epoch %d above one of %d", o.pos, o.header.Epoch, last)
			}
			last = o.header.Epoch
		}
	}
}

func TestF02_ClaimIsFollowedByFenceThatStopsTheOldWriter(t *testing.T) {
	store := objstore.NewMemory()
	a := mustOpen(t, store, plainOptions())
	mustPut(t, a, seq(t, 0, 2))
	mustPut(t, a, seq(t, 2, 1))
	b := mustOpen(t, store, plainOptions())
	checkShape(t, store, "F1 d1 d1 F2")
	checkRows(t, b, wantSeq(0, 3))
	checkFenced(t, a.Put(t.Context(), seq(t, 100, 1)), 2)
	mustPut(t, b, seq(t, 3, 1))
	checkRows(t, b, wantSeq(0, 4))
	checkShape(t, store, "F1 d1 d1 F2 d2")
}

// A put of the old writer is in flight while the new one looks for the end of
// the log. It lands right before the fence: then it counts, for both writers. Or
// after the fence: then it counts for none.
func TestF02_PutInFlightDuringTakeover(t *testing.T) {
	for _, first := range []string{"put", "fence"} {
		t.Run(first+" first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				ours, theirs := over(inner), over(inner)
				a := mustOpen(t, ours, plainOptions())
				mustPut(t, a, seq(t, 0, 1))
				held, release := hold()
				ours.on(objstore.OpPutIfAbsent, "/wal/", 1, held)
				ticket, err := a.PutAsync(t.Context(), seq(t, 1, 1))
				if err != nil {
					t.Fatal(err)
				}
				if first == "put" {
					theirs.on(objstore.OpPutIfAbsent, "/wal/", 1, func(_ context.Context, apply func() error) error {
						release()
						synctest.Wait()
						return apply()
					})
				}
				b := mustOpen(t, theirs, plainOptions())
				release()
				if err := ticket.Wait(t.Context()); first == "put" {
					if err != nil {
						t.Errorf("the put that came first: %v", err)
					}
					checkShape(t, inner, "F1 d1 d1 F2")
					checkRows(t, b, wantSeq(0, 2))
				} else {
					checkFenced(t, err, 2)
					checkShape(t, inner, "F1 d1 F2")
					checkRows(t, b, wantSeq(0, 1))
				}
				checkFenced(t, a.Put(t.Context(), seq(t, 9, 1)), 2)
			})
		})
	}
}

// Three writers, each of which has puts in flight when the next one comes.
func TestF02_ThreeEpochs(t *testing.T) {
	for _, lands := range []bool{false, true} {
		t.Run(fmt.Sprintf("first writer's second put lands %v", lands), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				first := newLate(inner)
				a := mustOpen(t, first, plainOptions())
				mustPut(t, a, seq(t, 0, 1))
				first.keep()
				for i := range int64(3) {
					if _, err := a.PutAsync(t.Context(), seq(t, 100+i, 1)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				second := over(inner)
				b := mustOpen(t, second, plainOptions()) // its fence is at 3
				if lands {
					first.land(t, 4)
				}
				mustPut(t, b, seq(t, 1, 1))
				held, release := hold()
				second.on(objstore.OpPutIfAbsent, "/wal/", always, held)
				var tickets []*Ticket
				for i := range int64(2) {
					ticket, err := b.PutAsync(t.Context(), seq(t, 200+i, 1))
					if err != nil {
						t.Fatal(err)
					}
					tickets = append(tickets, ticket)
				}
				synctest.Wait()
				c := mustOpen(t, inner, plainOptions())
				first.land(t, 3, 5)
				release()
				for _, ticket := range tickets {
					checkFenced(t, ticket.Wait(t.Context()), 3)
				}
				mustPut(t, c, seq(t, 2, 1))
				checkRows(t, c, wantSeq(0, 3))
				mustClose(t, c)
				checkRows(t, mustOpen(t, inner, plainOptions()), wantSeq(0, 3))
			})
		})
	}
}

// A claimer that stalls between its claim and its fence, while another one takes
// the shard over completely, ends fenced and disturbs nobody, wherever it stands.
func TestF02_StalledClaimer(t *testing.T) {
	type step struct {
		name, part string
		op         objstore.Op
		skip       int // requests of that kind that do not stall
	}
	for _, at := range []step{
		{"before it lists the log", "/wal/", objstore.OpList, 1},
		{"before it reads the last entry", wal.Name(2), objstore.OpGet, 0},
		{"before its fence", "/wal/", objstore.OpPutIfAbsent, 0},
		{"before it confirms", "/manifest/", objstore.OpList, 1},
	} {
		t.Run(at.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				a := mustOpen(t, inner, plainOptions())
				mustPut(t, a, seq(t, 0, 2))
				slow := over(inner)
				held, release := hold()
				pass := func(_ context.Context, apply func() error) error { return apply() }
				if at.skip > 0 {
					slow.on(at.op, at.part, at.skip, pass)
				}
				slow.on(at.op, at.part, 1, held)
				result := make(chan error, 1)
				go func() {
					w, err := Open(t.Context(), slow, testShard, testSchema, plainOptions())
					if err == nil {
						w.Abort()
					}
					result <- err
				}()
				synctest.Wait()
				if m := newestManifest(t, inner); m.Epoch != 2 {
					t.Fatalf("epoch is %d, the claimer should have claimed 2", m.Epoch)
				}
				c := mustOpen(t, inner, plainOptions())
				mustPut(t, c, seq(t, 2, 1))
				release()
				checkFenced(t, <-result, 3)
				mustPut(t, c, seq(t, 3, 1))
				checkRows(t, c, wantSeq(0, 4))
				checkVersions(t, inner, 3) // it has not claimed back
				mustClose(t, c)
				checkRows(t, mustOpen(t, inner, plainOptions()), wantSeq(0, 4))
			})
		})
	}
}

// The fence of a claimer that died on the way lands right before, or after, that
// of the next one.
func TestF02_LateFenceOfADeadClaimer(t *testing.T) {
	for _, first := range []string{"late", "own"} {
		t.Run(first+" fence first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				a := mustOpen(t, inner, plainOptions())
				mustPut(t, a, seq(t, 0, 1))
				dead := newLate(inner)
				dead.keep()
				ctx, cancel := context.WithCancel(t.Context())
				died := make(chan error, 1)
				go func() {
					_, err := Open(ctx, dead, testShard, testSchema, plainOptions())
					died <- err
				}()
				synctest.Wait()
				cancel()
				if err := <-died; !errors.Is(err, context.Canceled) {
					t.Fatalf("open: %v, want context.Canceled", err)
				}
				want := "F1 d1 F3 d3"
				store := over(inner)
				if first == "late" {
					want = "F1 d1 F2 F3 d3"
					store.on(objstore.OpPutIfAbsent, "/wal/", 1, func(_ context.Context, apply func() error) error {
						dead.land(t, 3)
						return apply()
					})
				}
				c := mustOpen(t, store, plainOptions())
				if dead.land(t, 3)[0] {
					t.Error("the late fence has landed now")
				}
				mustPut(t, c, seq(t, 1, 1))
				checkShape(t, inner, want)
				checkRows(t, c, wantSeq(0, 2))
				checkFenced(t, a.Put(t.Context(), seq(t, 9, 1)), map[string]uint64{"late": 2, "own": 3}[first])
				mustClose(t, c)
				checkRows(t, mustOpen(t, inner, plainOptions()), wantSeq(0, 2))
			})
		})
	}
}

// An error that a failed probe is taken for "absent" by would build on an
// outdated version.
func TestF04_FailedProbeIsAnError(t *testing.T) {
	once := &Options{Retry: objstore.RetryOptions{MaxAttempts: 1}}
	broken := errors.New("injected")
	dirs := layoutOf(testShard)
	t.Run("newest version", func(t *testing.T) {
		store := newTestStore()
		mustClose(t, mustOpen(t, store, once))
		mustClose(t, mustOpen(t, store, once))
		before := contents(t, store.inner, "")
		store.on(objstore.OpGet, dirs.manifest+manifest.Name(3), 1, failBefore(broken))
		if _, err := Open(t.Context(), store, testShard, testSchema, once); !errors.Is(err, broken) {
			t.Errorf("open: %v, want the injected failure", err)
		}
		checkUntouched(t, store.inner, before)
	})
	t.Run("end of the log", func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, once)
		mustPut(t, w, seq(t, 0, 1))
		mustClose(t, w)
		// The end of the log is at 3. Were the failure taken for "absent", the
		// fence would be put anywhere.
		store.on(objstore.OpGet, wal.Name(3), always, failBefore(broken))
		if _, err := Open(t.Context(), store, testShard, testSchema, once); !errors.Is(err, broken) {
			t.Errorf("open: %v, want the injected failure", err)
		}
		checkShape(t, store.inner, "F1 d1")
	})
	t.Run("missing entry", func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, once)
		mustPut(t, w, seq(t, 0, 1))
		mustClose(t, w)
		mustClose(t, mustOpen(t, store, once))
		deleteRaw(t, store.inner, dirs.wal+wal.Name(2))
		before := contents(t, store.inner, "")
		store.on(objstore.OpHead, wal.Name(2), 1, failBefore(broken))
		if _, err := Open(t.Context(), store, testShard, testSchema, once); !errors.Is(err, broken) || errors.Is(err, ErrHole) {
			t.Errorf("open: %v, want the injected failure and no hole", err)
		}
		checkUntouched(t, store.inner, before)
	})
	t.Run("ownership", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newTestStore()
			w := mustOpen(t, store, once)
			mustPut(t, w, seq(t, 0, 1))
			time.Sleep(time.Minute) // longer than a proof is trusted
			store.on(objstore.OpList, "/manifest/", always, failBefore(broken))
			err := w.Put(t.Context(), seq(t, 1, 1))
			if !errors.Is(err, ErrPersistence) || !errors.Is(err, broken) || errors.Is(err, ErrFenced) {
				t.Errorf("put: %v, want ErrPersistence and the injected failure", err)
			}
			if d := w.Stats().Durable; d != 1 {
				t.Errorf("%d rows count as durable, want 1", d)
			}
		})
	})
}

func TestF05_HintIsNotNeeded(t *testing.T) {
	hint := layoutOf(testShard).manifest + "version_hint.json"
	for name, spoil := range map[string]func(testing.TB, objstore.Store){
		"missing":    func(t testing.TB, s objstore.Store) { deleteRaw(t, s, hint) },
		"empty":      func(t testing.TB, s objstore.Store) { putRaw(t, s, hint, nil) },
		"unparsable": func(t testing.TB, s objstore.Store) { putRaw(t, s, hint, []byte("{")) },
		"stale":      func(t testing.TB, s objstore.Store) { putRaw(t, s, hint, []byte(`{"version":1}`)) },
		"beyond":     func(t testing.TB, s objstore.Store) { putRaw(t, s, hint, []byte(`{"version":99}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			store := objstore.NewMemory()
			for i := range int64(3) {
				w := mustOpen(t, store, plainOptions())
				mustPut(t, w, seq(t, i, 1))
				crashWriter(w)
			}
			if _, err := store.Head(t.Context(), hint); err != nil {
				t.Fatalf("no hint to spoil: %v", err)
			}
			spoil(t, store)
			w := mustOpen(t, store, plainOptions())
			checkRows(t, w, wantSeq(0, 3))
			if e := w.Stats().Epoch; e != 4 {
				t.Errorf("epoch %d, want 4", e)
			}
			checkVersions(t, store, 4)
		})
	}
}

// A claim that was overtaken is built anew on the version that overtook it.
func TestF06_ClaimOnOutdatedVersionIsRebuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		mustClose(t, mustOpen(t, inner, plainOptions()))
		slow := over(inner)
		held, release := hold()
		slow.on(objstore.OpPutIfAbsent, "/manifest/", 1, held)
		opened := make(chan *Writer, 1)
		go func() {
			w, err := Open(t.Context(), slow, testShard, testSchema, plainOptions())
			if err != nil {
				t.Errorf("open: %v", err)
			}
			opened <- w
		}()
		synctest.Wait()
		c := mustOpen(t, inner, plainOptions()) // version 2
		mustPut(t, c, seq(t, 0, 1))
		release()
		b := <-opened
		if b == nil {
			return
		}
		defer b.Abort()
		if e := b.Stats().Epoch; e != 3 {
			t.Errorf("epoch %d, want 3", e)
		}
		checkVersions(t, inner, 3)
		checkShape(t, inner, "F1 F2 d2 F3")
		checkRows(t, b, wantSeq(0, 1))
		checkFenced(t, c.Put(t.Context(), seq(t, 9, 1)), 3)
	})
}

func TestF07_ConcurrentCommitsAllLand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, plainOptions())
		store.on(objstore.OpPutIfAbsent, "/manifest/", always, jitter(rand.New(rand.NewPCG(7, 7)), 20*time.Millisecond))
		const commits = 12
		var wg sync.WaitGroup
		for i := range commits {
			wg.Go(func() {
				_, err := w.c.log.Update(t.Context(), w.c.owner, func(m *manifest.Manifest) error {
					notes := map[string][]byte{fmt.Sprint(i): {byte(i)}}
					for k, v := range m.Annotations {
						notes[k] = v
					}
					m.Annotations = notes
					return nil
				})
				if err != nil {
					t.Errorf("commit %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		m := newestManifest(t, store)
		if len(m.Annotations) != commits {
			t.Errorf("%d of %d commits are there: %v", len(m.Annotations), commits, m.Annotations)
		}
		checkVersions(t, store, commits+1)
		mustPut(t, w, seq(t, 0, 1))
	})
}

// The reply to a commit comes after a later commit through the same handle.
func TestF07_LateReplyDoesNotBringAnOlderVersionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w := mustOpen(t, store, plainOptions())
		update := func() error {
			_, err := w.c.log.Update(t.Context(), w.c.owner, func(m *manifest.Manifest) error {
				m.LastSeen++
				return nil
			})
			return err
		}
		held, release := hold()
		store.on(objstore.OpPutIfAbsent, manifest.Name(2), 1, func(ctx context.Context, apply func() error) error {
			return errors.Join(apply(), held(ctx, func() error { return nil }))
		})
		slow := make(chan error, 1)
		go func() { slow <- update() }()
		synctest.Wait()
		if err := update(); err != nil {
			t.Fatal(err)
		}
		release()
		if err := <-slow; err != nil {
			t.Fatal(err)
		}
		if l := newestManifest(t, store); l.Version != 3 || l.LastSeen != 2 {
			t.Errorf("the newest version is %d, last seen %d; want 3, 2", l.Version, l.LastSeen)
		}
		checkVersions(t, store, 3)
	})
}

func TestF09_LostRepliesOfTakeoverAreRecognised(t *testing.T) {
	for _, part := range []string{"/manifest/", "/wal/"} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s fresh %v", part, fresh), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTestStore()
					want, opens := "F1", 1
					if !fresh {
						mustClose(t, mustOpen(t, store, plainOptions()))
						want, opens = "F1 F2", 2
					}
					store.on(objstore.OpPutIfAbsent, part, 1, failAfter(errAmbiguous))
					w := mustOpen(t, store, plainOptions())
					if e := w.Stats().Epoch; e != uint64(opens) {
						t.Errorf("epoch %d, want %d", e, opens)
					}
					checkVersions(t, store, opens)
					checkShape(t, store, want)
					mustPut(t, w, seq(t, 0, 1))
				})
			})
		}
	}
}

// The reply to the claim is lost and the claim was applied; before the claimer
// asks again, another one has claimed on top of it.
func TestF09_LostReplyOfClaimThatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		mustClose(t, mustOpen(t, inner, plainOptions()))
		slow := over(inner)
		var c *Writer
		slow.on(objstore.OpPutIfAbsent, "/manifest/", 1, func(_ context.Context, apply func() error) error {
			_ = apply()
			c = mustOpen(t, inner, plainOptions())
			return errAmbiguous
		})
		w, err := Open(t.Context(), slow, testShard, testSchema, plainOptions())
		if err == nil {
			w.Abort()
		}
		checkFenced(t, err, 3)
		mustPut(t, c, seq(t, 0, 1))
		checkVersions(t, inner, 3)
	})
}

func TestF10_FencedWriterStaysFenced(t *testing.T) {
	store := objstore.NewMemory()
	a := mustOpen(t, store, plainOptions())
	mustPut(t, a, seq(t, 0, 1))
	b := mustOpen(t, store, plainOptions())
	checkFenced(t, a.Put(t.Context(), seq(t, 100, 1)), 2)
	mustPut(t, b, seq(t, 1, 1))
	mustClose(t, b)
	before := contents(t, store, "")
	for range 3 {
		checkFenced(t, a.Put(t.Context(), seq(t, 100, 1)), 2)
		checkFenced(t, a.Flush(t.Context()), 2)
		checkFenced(t, a.Rotate(t.Context()), 2)
		_, err := a.Snapshot()
		checkFenced(t, err, 2)
		checkFenced(t, a.Err(), 2)
	}
	checkFenced(t, a.Close(t.Context()), 2)
	checkUntouched(t, store, before)
}

// Between the fence and the look at the manifest after it, the floor passes the
// fence: the place where it stands may have been recycled before.
func TestF11_FenceBelowANewerFloorDoesNotCount(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, 0, 2))
	mustClose(t, w)
	store := over(inner)
	store.on(objstore.OpList, "/manifest/", 1, func(_ context.Context, apply func() error) error { return apply() })
	store.on(objstore.OpList, "/manifest/", 1, func(_ context.Context, apply func() error) error {
		log := logOf(t, inner)
		fence := log[len(log)-1]
		if !fence.header.Fence || fence.header.Epoch != 2 {
			t.Errorf("the last object is %+v, want the fence of epoch 2", fence.header)
		}
		_, err := manifests(inner).UpdateAny(t.Context(), func(m *manifest.Manifest) error {
			m.SetFloor(manifest.Floor{Plane: manifest.PlaneRows, Kind: manifest.Snapshot, Tuple: wal.Tuple{
				Position: fence.pos, Epoch: 2, PutID: fence.header.PutID, NextRow: 2, Generation: 1,
			}})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return apply()
	})
	w = mustOpen(t, store, plainOptions())
	if st := w.Stats(); st.Epoch != 3 || st.Accepted != 2 || st.Open.Rows != 0 {
		t.Errorf("got epoch %d, %d rows, %d of them replayed; want 3, 2, 0", st.Epoch, st.Accepted, st.Open.Rows)
	}
	checkShape(t, inner, "F1 d1 F2 F3")
	mustPut(t, w, seq(t, 2, 1))
	checkRows(t, w, wantSeq(2, 1))
}

// Puts of a dead writer land above the fence of its successor, which goes on
// above them.
func TestF13_LivePutGoesOnAboveDeadObjects(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []uint64 // positions that land before the first put, and after it
	}{
		{"none", nil, nil},
		{"one", []uint64{4}, nil},
		{"a row", []uint64{4, 5, 6}, nil},
		{"with a gap", []uint64{5}, nil},
		{"at the end of the window", []uint64{6}, nil},
		{"later", nil, []uint64{5}},
		{"later, a row", nil, []uint64{5, 6}},
		{"now and then", []uint64{4}, []uint64{6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				dead := dieInFlight(t, inner)
				b := mustOpen(t, inner, plainOptions()) // its fence is at 3
				for _, landed := range dead.land(t, c.before...) {
					if !landed {
						t.Fatal("the put of the dead writer did not land")
					}
				}
				mustPut(t, b, seq(t, 1, 1))
				dead.land(t, c.after...)
				var tickets []*Ticket
				for i := range int64(6) {
					ticket, err := b.PutAsync(t.Context(), seq(t, 2+i, 1))
					if err != nil {
						t.Fatal(err)
					}
					tickets = append(tickets, ticket)
				}
				for _, ticket := range tickets {
					if err := ticket.Wait(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if n := b.Stats().WAL.Reissued; (n > 0) != (len(c.before)+len(c.after) > 0) {
					t.Errorf("%d entries were put again", n)
				}
				checkRows(t, b, wantSeq(0, 8))
				mustClose(t, b)
				b = mustOpen(t, inner, plainOptions())
				checkRows(t, b, wantSeq(0, 8))
				if got, want := b.Stats().Open.Dead > 0, len(c.before)+len(c.after) > 0; got != want {
					t.Errorf("dead objects met: %v, want %v", got, want)
				}
			})
		})
	}
}

// Whatever of a dead process lands after the restart, and whenever, is ignored.
func TestS06_PutsOfADeadProcessAreIgnored(t *testing.T) {
	for _, when := range []string{"after the fence", "after the first put", "after close"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				dead := dieInFlight(t, inner)
				b := mustOpen(t, inner, plainOptions())
				land := func(now string) {
					if now == when {
						dead.land(t, 3, 4, 5, 6)
					}
				}
				land("after the fence")
				mustPut(t, b, seq(t, 1, 1))
				land("after the first put")
				mustPut(t, b, seq(t, 2, 1))
				mustClose(t, b)
				land("after close")
				for i := range 3 {
					w := mustOpen(t, inner, plainOptions())
					checkRows(t, w, wantSeq(0, 3+i))
					mustPut(t, w, seq(t, int64(3+i), 1))
					mustClose(t, w)
				}
			})
		})
	}
}

// The claimer's fence met another one, which was recycled before it could be
// read. The place proves nothing, and the shard is not the claimer's to claim again.
func TestF10_FencedClaimerDoesNotClaimBack(t *testing.T) {
	inner := objstore.NewMemory()
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	mustClose(t, w)
	slow := over(inner)
	var other *Writer
	slow.on(objstore.OpPutIfAbsent, "/wal/", 1, func(_ context.Context, apply func() error) error {
		other = mustOpen(t, inner, plainOptions())
		err := apply()
		fence := logOf(t, inner)[2]
		setFloor(t, inner, wal.Tuple{Position: 3, Epoch: 3, PutID: fence.header.PutID, NextRow: 1, Generation: 1})
		for pos := uint64(1); pos <= 3; pos++ {
			deleteRaw(t, inner, layoutOf(testShard).wal+wal.Name(pos))
		}
		return err
	})
	w, err := Open(t.Context(), slow, testShard, testSchema, plainOptions())
	if err == nil {
		w.Abort()
	}
	checkFenced(t, err, 3)
	if m := newestManifest(t, inner); m.Epoch != 3 {
		t.Errorf("epoch %d, want 3", m.Epoch)
	}
	mustPut(t, other, seq(t, 1, 1))
}
