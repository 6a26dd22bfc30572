package memwal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// What recycling does to writers that are late. Nothing of memwal recycles yet: these
// tests delete by the rules that it will have to keep.

// absorb moves the rows floor to the end of the log, as a flush of everything does.
func absorb(t *testing.T, s objstore.Store) wal.Tuple {
	t.Helper()
	chain := wal.NewChain(newestManifest(t, s).RowsFloor())
	for _, o := range logOf(t, s) {
		if o.pos != chain.Tuple().Position+1 {
			continue
		}
		e, err := wal.Decode(o.data, wal.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain.Judge(o.pos, e.Header, e.Rows)
		e.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	setFloor(t, s, chain.Tuple())
	return chain.Tuple()
}

// trimLog deletes what lies at and below the floor: live entries at once, fences and
// dead entries when they have been kept for the fence retention.
func trimLog(t *testing.T, s objstore.Store) (left []uint64) {
	t.Helper()
	floor := newestManifest(t, s).RowsFloor()
	chain := wal.NewChain(wal.Start())
	now, whole := time.Now(), true
	for _, o := range logOf(t, s) {
		if o.pos > floor.Position {
			continue
		}
		live := false
		if whole = whole && o.pos == chain.Tuple().Position+1; whole && !o.header.Fence {
			e, err := wal.Decode(o.data, wal.DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			v, err := chain.Judge(o.pos, e.Header, e.Rows)
			e.Release()
			if err != nil {
				t.Fatal(err)
			}
			live = v == wal.Live
		} else if whole {
			if _, err := chain.Judge(o.pos, o.header, 0); err != nil {
				t.Fatal(err)
			}
		}
		h, err := s.Head(t.Context(), o.key())
		if err != nil {
			t.Fatal(err)
		}
		if live || now.Sub(h.Modified) > 24*time.Hour {
			deleteRaw(t, s, o.key())
		} else {
			left = append(left, o.pos)
		}
	}
	versions := versionsOf(t, s)
	for _, v := range versions[:len(versions)-1] {
		key := layoutOf(testShard).manifest + manifest.Name(v)
		if h, err := s.Head(t.Context(), key); err == nil && now.Sub(h.Modified) > 24*time.Hour {
			deleteRaw(t, s, key)
		}
	}
	return left
}

// The writer sleeps through a whole life of its successor: its log was absorbed and
// recycled, the fence too, and the version that it claimed. Then its put arrives in
// the position that was emptied. It is not acknowledged, and nobody finds it.
func TestF12_PutIntoARecycledPosition(t *testing.T) {
	for name, sleep := range map[string]struct {
		inFlight bool          // the put was on its way all the time
		asleep   time.Duration // until it arrives
		fenced   bool          // by the fence itself, which is still there
	}{
		"an idle writer, a minute later":        {false, time.Minute, true},
		"an idle writer, two days later":        {false, 48 * time.Hour, false},
		"a put on its way, a minute later":      {true, time.Minute, true},
		"a put on its way, two days later":      {true, 48 * time.Hour, false},
		"a put on its way, a little time later": {true, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				slow := over(inner)
				o := patient(plainOptions())
				a := mustOpen(t, slow, o)
				mustPut(t, a, seq(t, 0, 2))
				held, release := hold()
				var ticket *Ticket
				if sleep.inFlight {
					slow.on(objstore.OpPutIfAbsent, walPart, 1, held)
					ticket = mustPutAsync(t, a, seq(t, 900, 1))
					synctest.Wait()
				}
				b := mustOpen(t, inner, plainOptions()) // its fence is at 3
				mustPut(t, b, seq(t, 2, 2))
				mustClose(t, b)
				floor := absorb(t, inner)
				if floor.NextRow != 4 {
					t.Fatalf("the floor is %+v", floor)
				}
				time.Sleep(sleep.asleep)
				if left := trimLog(t, inner); slices.Contains(left, 3) != sleep.fenced {
					t.Fatalf("left are %v", left)
				}
				if !sleep.inFlight {
					ticket = mustPutAsync(t, a, seq(t, 900, 1))
				}
				release()
				err := ticket.Wait(t.Context())
				if !errors.Is(err, ErrFenced) {
					t.Errorf("the late put: %v", err)
				}
				if d := a.Stats().Durable; d != 2 {
					t.Errorf("%d rows are durable for the old writer", d)
				}
				for n := range 2 {
					c := mustOpen(t, inner, plainOptions())
					checkRows(t, c, wantSeq(4, n))
					mustPut(t, c, seq(t, int64(4+n), 1))
					if got := c.Stats().Accepted; got != uint64(5+n) {
						t.Errorf("%d rows were accepted", got)
					}
					mustClose(t, c)
				}
			})
		})
	}
}

// The put had landed and its reply was lost. Before the writer asks again, its
// successor has replayed, absorbed and recycled the entry: the same bytes land
// once more, below the floor. To say that they are durable is true, and they are not
// found twice. The next put meets the fence.
func TestF12_LostReplyOfARecycledEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := objstore.NewMemory()
		slow := over(inner)
		a := mustOpen(t, slow, plainOptions())
		mustPut(t, a, seq(t, 0, 1))
		slow.on(objstore.OpPutIfAbsent, walPart, 1, func(_ context.Context, apply func() error) error {
			if err := apply(); err != nil {
				t.Error(err)
			}
			b := mustOpen(t, inner, plainOptions())
			checkRows(t, b, wantSeq(0, 2))
			absorb(t, inner)
			if left := trimLog(t, inner); !slices.Equal(left, []uint64{1, 4}) {
				t.Errorf("left are %v", left)
			}
			crashWriter(b)
			return errAmbiguous
		})
		if err := a.Put(t.Context(), seq(t, 1, 1)); err != nil {
			t.Errorf("the row is in the shard, but: %v", err)
		}
		checkFenced(t, a.Put(t.Context(), seq(t, 2, 1)), 2)
		for n := range 2 {
			c := mustOpen(t, inner, plainOptions())
			checkRows(t, c, wantSeq(2, n))
			mustPut(t, c, seq(t, int64(2+n), 1))
			mustClose(t, c)
		}
	})
}

// Puts of a fenced writer land behind its first one, where its successor's live
// entries were recycled. The first one is still unresolved, and meets the fence.
func TestF12_PutsBehindTheFirstLandInRecycledPositions(t *testing.T) {
	for _, order := range [][]int{{1, 2, 3, 0}, {3, 1, 0, 2}, {0, 1, 2, 3}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := objstore.NewMemory()
				slow := over(inner)
				a := mustOpen(t, slow, patient(plainOptions()))
				mustPut(t, a, seq(t, 0, 1))
				var releases []func()
				var tickets []*Ticket
				for i := range int64(4) {
					held, release := hold()
					slow.on(objstore.OpPutIfAbsent, walPart, 1, held)
					releases = append(releases, release)
					tickets = append(tickets, mustPutAsync(t, a, seq(t, 900+i, 1)))
					synctest.Wait()
				}
				b := mustOpen(t, inner, plainOptions()) // its fence is at 3
				for i := range int64(6) {
					mustPut(t, b, seq(t, 1+i, 1)) // at 4 to 9
				}
				absorb(t, inner)
				if left := trimLog(t, inner); !slices.Equal(left, []uint64{1, 3}) {
					t.Fatalf("left are %v", left)
				}
				for _, i := range order {
					releases[i]()
					synctest.Wait()
				}
				for _, ticket := range tickets {
					checkFenced(t, ticket.Wait(t.Context()), 2)
				}
				mustPut(t, b, seq(t, 7, 1))
				mustClose(t, b)
				c := mustOpen(t, inner, plainOptions())
				checkRows(t, c, wantSeq(7, 1))
			})
		})
	}
}

// A claimer stalls with its claim, or with its fence, on the way, until versions and
// entries are recycled. The claim, or the fence, lands in an emptied place.
func TestF12_ClaimerSleepsThroughEverything(t *testing.T) {
	for _, part := range []string{"/manifest/", walPart} {
		for _, asleep := range []time.Duration{time.Minute, 48 * time.Hour} {
			t.Run(fmt.Sprintf("%s %v", part, asleep), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					inner := objstore.NewMemory()
					a := mustOpen(t, inner, plainOptions())
					mustPut(t, a, seq(t, 0, 2))
					mustClose(t, a)
					slow := over(inner)
					held, release := hold()
					slow.on(objstore.OpPutIfAbsent, part, 1, held)
					opened := make(chan error, 1)
					go func() {
						w, err := Open(t.Context(), slow, testShard, testSchema, patient(plainOptions()))
						if err == nil {
							checkRows(t, w, wantSeq(4, 0))
							err = w.Put(t.Context(), seq(t, 4, 1))
							w.Abort()
						}
						opened <- err
					}()
					synctest.Wait()
					for i := range int64(2) {
						c := mustOpen(t, inner, plainOptions())
						mustPut(t, c, seq(t, 2+i, 1))
						mustClose(t, c)
					}
					absorb(t, inner)
					time.Sleep(asleep)
					trimLog(t, inner)
					release()
					err := <-opened
					rows := 0
					switch {
					case err == nil && part == "/manifest/":
						rows = 1 // it has claimed anew, which is fine: nobody else writes
					case !errors.Is(err, ErrFenced):
						t.Errorf("open: %v", err)
					}
					c := mustOpen(t, inner, plainOptions())
					checkRows(t, c, wantSeq(4, rows))
					if n := c.Stats().Accepted; n != uint64(4+rows) {
						t.Errorf("%d rows are in the shard", n)
					}
					mustPut(t, c, seq(t, int64(4+rows), 1))
					mustClose(t, c)
				})
			})
		}
	}
}
