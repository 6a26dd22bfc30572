package memwal

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/memwal/memwal-go/objstore"
)

// TestV20_ConcurrentPutters lets many callers put through one writer, some of
// them without waiting, while memtables rotate all the time.
func TestV20_ConcurrentPutters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, puts = 8, 200
		store := objstore.NewMemory()
		o := &Options{MaxMemtableRows: 37, FlushBytes: 2000, FlushInterval: 5 * time.Millisecond}
		w := mustOpen(t, store, o)
		work := make([][]arrow.RecordBatch, callers) // made beforehand: that takes longer than putting
		for c := range work {
			for i := range puts {
				work[c] = append(work[c], seq(t, int64(c*10_000+i*10), 1+(c+i)%3))
			}
		}
		tickets := make([][]*Ticket, callers)
		var wg sync.WaitGroup
		for c := range work {
			wg.Go(func() { tickets[c] = putAll(t, w, work[c], c%2*25) })
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		want := make(map[uint64]int64) // the id at each row ordinal
		for c := range tickets {
			var end uint64
			for i, ticket := range tickets[c] {
				if err := ticket.Wait(t.Context()); err != nil {
					t.Fatalf("caller %d, put %d: %v", c, i, err)
				}
				if ticket.FirstRow() < end {
					t.Fatalf("caller %d: put %d got the rows from %d, the one before those below %d", c, i, ticket.FirstRow(), end)
				}
				end = ticket.FirstRow() + uint64(ticket.Rows())
				ids := work[c][i].Column(0).(*array.Int64)
				for row := range ids.Len() {
					ordinal := ticket.FirstRow() + uint64(row)
					if _, taken := want[ordinal]; taken {
						t.Fatalf("caller %d, put %d: row %d was given out twice", c, i, ordinal)
					}
					want[ordinal] = ids.Value(row)
				}
			}
		}
		check := func(w *Writer) {
			t.Helper()
			if got := w.Stats(); got.Accepted != uint64(len(want)) || got.Visible != got.Accepted {
				t.Errorf("%d rows were acknowledged; accepted %d, visible %d", len(want), got.Accepted, got.Visible)
			}
			got := ordinalsOf(t, w)
			for ordinal, id := range want {
				if got[ordinal] != id {
					t.Fatalf("row %d has id %d, want %d", ordinal, got[ordinal], id)
				}
			}
		}
		check(w)
		mustClose(t, w)
		check(mustOpen(t, store, o))
	})
}

// putAll puts batches in order; it waits for every n-th of them, if n is not 0.
func putAll(t *testing.T, w *Writer, batches []arrow.RecordBatch, n int) (tickets []*Ticket) {
	for i, rec := range batches {
		ticket, err := w.PutAsync(t.Context(), rec)
		if err != nil {
			t.Errorf("put %d: %v", i, err)
			return tickets
		}
		if n > 0 && i%n == 0 {
			if err := ticket.Wait(t.Context()); err != nil {
				t.Errorf("wait for put %d: %v", i, err)
				return tickets
			}
		}
		tickets = append(tickets, ticket)
	}
	return tickets
}

// ordinalsOf scans the ids of what is visible, by row ordinal.
func ordinalsOf(t *testing.T, w *Writer) map[uint64]int64 {
	t.Helper()
	s, err := w.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := make(map[uint64]int64)
	for rec, err := range s.All(context.Background(), ScanOptions{Columns: []string{"id"}, Ordinals: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ids, ordinals := rec.Column(0).(*array.Int64), rec.Column(1).(*array.Uint64)
		for i := range ids.Len() {
			if _, twice := found[ordinals.Value(i)]; twice {
				t.Errorf("row %d is there twice", ordinals.Value(i))
			}
			found[ordinals.Value(i)] = ids.Value(i)
		}
	}
	return found
}
