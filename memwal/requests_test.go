package memwal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// errBroken is a failure of no class: it passes, and its outcome is unknown.
var errBroken = errors.New("injected failure")

// requestFault is what happens to the k-th request and, if it lasts, to those
// after it.
type requestFault struct {
	name  string
	do    action
	lasts bool
}

var requestFaults = []requestFault{
	{"fails once", failBefore(errBroken), false},
	{"loses its reply", failAfter(&objstore.Error{Op: "test", Class: objstore.ErrAmbiguous, Err: errBroken}), false},
	{"is throttled", failBefore(&objstore.Error{Op: "test", Class: objstore.ErrThrottled, Err: errBroken}), false},
	{"conflicts", failBefore(&objstore.Error{Op: "test", Class: objstore.ErrConflict, Err: errBroken}), false},
	{"is not permitted", failBefore(&objstore.Error{Op: "test", Class: objstore.ErrPermission, Err: errBroken}), false},
	{"fails for good", failBefore(errBroken), true},
	{"is not permitted any more", failBefore(&objstore.Error{Op: "test", Class: objstore.ErrPermission, Err: errBroken}), true},
	{"loses every reply from there on", failAfter(&objstore.Error{Op: "test", Class: objstore.ErrAmbiguous, Err: errBroken}), true},
}

// at lets the fault act from the k-th request on, counted from 1. reached tells
// whether there was one.
func (f requestFault) at(s *testStore, k int64) (reached func() bool) {
	var n atomic.Int64
	s.on("", "", always, func(ctx context.Context, apply func() error) error {
		if i := n.Add(1); i == k || f.lasts && i > k {
			return f.do(ctx, apply)
		}
		return apply()
	})
	return func() bool { return n.Load() >= k }
}

// The store fails at each request of an Open in turn. The Open either succeeds
// or says so, and the next one finds every row, once.
func TestR13_OpenFailsAtEachRequest(t *testing.T) {
	store := objstore.NewMemory()
	for i := range int64(2) {
		w := mustOpen(t, store, plainOptions())
		mustPut(t, w, seq(t, i, 1))
		mustClose(t, w)
	}
	histories := map[string]map[string]string{"new shard": {}, "two epochs": contents(t, store, "")}
	for history, base := range histories {
		rows := 0
		if len(base) > 0 {
			rows = 2
		}
		for _, f := range requestFaults {
			for _, attempts := range []int{1, 5} {
				if f.lasts && attempts > 1 {
					continue // more attempts change nothing
				}
				t.Run(fmt.Sprintf("%s/%s/%d attempts", history, f.name, attempts), func(t *testing.T) {
					k, failed := int64(1), 0
					for ; ; k++ {
						var reached, ok bool
						synctest.Test(t, func(t *testing.T) { reached, ok = openWithFault(t, base, f, k, attempts, rows) })
						if !reached || t.Failed() {
							break
						}
						if !ok {
							failed++
						}
					}
					if k < 8 {
						t.Errorf("an Open makes %d requests only", k-1)
					}
					if failed == 0 && attempts == 1 {
						t.Error("no Open has failed")
					}
				})
			}
		}
	}
}

func openWithFault(t *testing.T, base map[string]string, f requestFault, k int64, attempts, rows int) (reached, ok bool) {
	inner := copyOf(t, base)
	store := over(inner)
	hit := f.at(store, k)
	o := plainOptions()
	o.Retry.MaxAttempts = attempts
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w, err := Open(ctx, store, testShard, testSchema, o)
	reached = hit()
	if err == nil {
		checkRows(t, w, wantSeq(0, rows))
		fenced := slices.ContainsFunc(logOf(t, inner), func(o walObject) bool {
			return o.header.Fence && o.header.Epoch == w.Stats().Epoch
		})
		if !fenced {
			t.Errorf("request %d %s: open succeeded without its fence: %s", k, f.name, shape(logOf(t, inner)))
		}
		w.Abort()
	} else if !reached {
		t.Errorf("open failed without a fault: %v", err)
	} else if !errors.Is(err, errBroken) || errors.Is(err, ErrFenced) || errors.Is(err, ErrHole) || errors.Is(err, ErrCorrupt) {
		t.Errorf("request %d %s: open: %v, want the injected failure", k, f.name, err)
	}
	w = mustOpen(t, inner, plainOptions())
	checkRows(t, w, wantSeq(0, rows))
	mustPut(t, w, seq(t, int64(rows), 2))
	mustClose(t, w)
	w = mustOpen(t, inner, plainOptions())
	checkRows(t, w, wantSeq(0, rows+2))
	if a := w.Stats().Accepted; a != uint64(rows+2) {
		t.Errorf("request %d %s: %d rows are in the log, want %d", k, f.name, a, rows+2)
	}
	return reached, err == nil
}

// crash is a store whose process dies at the k-th request: that one is applied or
// not, or arrives later; no other one gets through after it.
type crash struct {
	objstore.Store
	k    int64
	mode string // "before", "after" or "late"
	n    atomic.Int64
	mu   sync.Mutex
	kept []func()
}

var errCrashed = &objstore.Error{Op: "test", Class: objstore.ErrUnusable, Err: errors.New("the process is dead")}

// gate counts a request and tells whether it gets through, and whether its reply
// does.
func (c *crash) gate() (through, reply bool) {
	switch n := c.n.Add(1); {
	case n < c.k:
		return true, true
	case n == c.k:
		return c.mode == "after", false
	}
	return false, false
}

func (c *crash) dead() bool { return c.n.Load() >= c.k }

func (c *crash) Get(ctx context.Context, key string) ([]byte, error) {
	if _, reply := c.gate(); !reply {
		return nil, errCrashed
	}
	return c.Store.Get(ctx, key)
}

func (c *crash) Head(ctx context.Context, key string) (objstore.Object, error) {
	if _, reply := c.gate(); !reply {
		return objstore.Object{}, errCrashed
	}
	return c.Store.Head(ctx, key)
}

func (c *crash) List(ctx context.Context, prefix string) iter.Seq2[objstore.Object, error] {
	if _, reply := c.gate(); !reply {
		return func(yield func(objstore.Object, error) bool) { yield(objstore.Object{}, errCrashed) }
	}
	return c.Store.List(ctx, prefix)
}

func (c *crash) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	through, reply := c.gate()
	if !through && c.mode == "late" {
		data := body.Bytes()
		c.mu.Lock()
		c.kept = append(c.kept, func() { _, _ = c.Store.PutIfAbsent(context.Background(), key, objstore.Body{data}) })
		c.mu.Unlock()
	}
	if !through {
		return objstore.PutResult{}, errCrashed
	}
	res, err := c.Store.PutIfAbsent(ctx, key, body)
	if !reply {
		return objstore.PutResult{}, errCrashed
	}
	return res, err
}

func (c *crash) Put(ctx context.Context, key string, body objstore.Body) error {
	through, reply := c.gate()
	if through {
		_ = c.Store.Put(ctx, key, body)
	}
	if !reply {
		return errCrashed
	}
	return nil
}

// arrive lets what was on its way arrive.
func (c *crash) arrive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.kept {
		f()
	}
	c.kept = nil
}

// workload opens the shard, whose rows so far are known, and puts until the store
// dies or there is no more to do. It returns how many rows were issued and how
// many of them were acknowledged, both counted from the start of history.
func workload(t *testing.T, store objstore.Store, known, puts int) (issued, acked int) {
	w, err := Open(t.Context(), store, testShard, testSchema, plainOptions())
	if err != nil {
		return known, known
	}
	defer w.Abort()
	issued = known
	var tickets []*Ticket
	var ends []int
	for i := range puts {
		n := 1 + i%3
		ticket, err := w.PutAsync(t.Context(), seq(t, int64(issued), n))
		if err != nil {
			break
		}
		issued += n
		tickets, ends = append(tickets, ticket), append(ends, issued)
		switch i % 4 {
		case 1:
			_ = ticket.Wait(t.Context())
		case 2:
			_ = w.Rotate(t.Context())
		}
	}
	_ = w.Close(t.Context())
	acked = known
	for i, ticket := range tickets {
		if err := ticket.Wait(t.Context()); err == nil {
			acked = ends[i]
		}
	}
	return issued, acked
}

// The process dies at each request of a workload, then opens and dies again: what
// is there afterwards begins with all that was acknowledged, and is the
// beginning of what was issued.
func TestR13_CrashAtEachRequest(t *testing.T) {
	for _, mode := range []string{"before", "after", "late"} {
		t.Run(mode, func(t *testing.T) {
			for k := int64(1); ; k++ {
				died := false
				synctest.Test(t, func(t *testing.T) { died = crashTwice(t, mode, k) })
				if !died {
					if k < 20 {
						t.Errorf("the workload makes %d requests only", k-1)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("the process died at request %d", k)
				}
			}
		})
	}
}

func crashTwice(t *testing.T, mode string, k int64) bool {
	inner := objstore.NewMemory()
	first := &crash{Store: inner, k: k, mode: mode}
	issued, acked := workload(t, first, 0, 8)
	known := recovered(t, copyOf(t, contents(t, inner, "")), acked, issued)

	// It dies again while it opens, or soon after.
	second := &crash{Store: inner, k: 1 + k*5%17, mode: mode}
	issued2, acked2 := workload(t, second, known, 2)
	// Rows of the first life count only as far as the second one has seen them.
	now := recovered(t, copyOf(t, contents(t, inner, "")), acked2, issued2)
	first.arrive()
	if second.dead() && acked2 == known && now == known {
		// The second one has not fenced, perhaps: what arrives may still count.
		issued2 = max(issued2, issued)
	}
	now = recovered(t, inner, acked2, issued2)
	second.arrive()
	third := recovered(t, inner, now, now)
	w := mustOpen(t, inner, plainOptions())
	mustPut(t, w, seq(t, int64(third), 1))
	mustClose(t, w)
	recovered(t, inner, third+1, third+1)
	return first.dead()
}

// recovered opens the shard and returns how many rows it has: the beginning of
// wantSeq(0, …), at least acked and at most issued.
func recovered(t *testing.T, store objstore.Store, acked, issued int) int {
	t.Helper()
	w := mustOpen(t, store, plainOptions())
	defer w.Abort()
	rows := rowsOf(t, w)
	if len(rows) < acked || len(rows) > issued || !slices.Equal(rows, wantSeq(0, len(rows))) {
		t.Errorf("recovered %v; %d rows were acknowledged, %d issued; log: %s", rows, acked, issued, shape(logOf(t, store)))
	}
	if a := w.Stats().Accepted; a != uint64(len(rows)) {
		t.Errorf("%d rows are there, the next ordinal is %d", len(rows), a)
	}
	return len(rows)
}
