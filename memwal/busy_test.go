package memwal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

// A writer whose window is always full has a put on its way to every position that
// its successor finds empty, and sends more in a round trip than a walk that looks
// at one position after the other. The takeover ends all the same, and what the
// old writer had acknowledged by then is there.
func TestF02_TakeoverOfABusyWriterEnds(t *testing.T) {
	for _, latency := range []faultstore.Latency{
		{P50: 20 * time.Millisecond},                              // every race is lost
		{P50: 20 * time.Millisecond, P99: 100 * time.Millisecond}, // some are won
	} {
		for _, inFlight := range []int{1, 4, 16} {
			for name, take := range map[string]func(context.Context, objstore.Store) error{
				"open": func(ctx context.Context, s objstore.Store) error {
					w, err := Open(ctx, s, testShard, testSchema, plainOptions())
					if err == nil {
						w.Abort()
					}
					return err
				},
				"seal": func(ctx context.Context, s objstore.Store) error { return SealShard(ctx, s, testShard, nil) },
			} {
				t.Run(fmt.Sprintf("%s/%v to %v/%d in flight", name, latency.P50, latency.P99, inFlight), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { takeFromBusyWriter(t, latency, inFlight, take) })
				})
			}
		}
	}
}

func takeFromBusyWriter(t *testing.T, latency faultstore.Latency, inFlight int, take func(context.Context, objstore.Store) error) {
	inner := objstore.NewMemory()
	ours, theirs := faultstore.New(inner, 1), faultstore.New(inner, 2)
	ours.SetLatency(latency)
	theirs.SetLatency(latency)
	o := plainOptions()
	o.MaxInFlight = inFlight
	w := mustOpen(t, ours, o)
	var wg sync.WaitGroup
	var tickets []*Ticket
	wg.Go(func() {
		for i := int64(0); ; i++ {
			rec := seq(t, i, 1)
			ticket, err := w.PutAsync(t.Context(), rec)
			if err != nil {
				if !errors.Is(err, ErrFenced) {
					t.Errorf("put: %v", err)
				}
				return
			}
			tickets = append(tickets, ticket)
			time.Sleep(time.Millisecond)
		}
	})
	time.Sleep(time.Second)
	start := time.Now()
	// The old writer looks at the manifest after at most 512 entries; what it has put
	// by then is read ahead.
	limit := time.Duration(512/inFlight+100) * 2 * latency.P50
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := take(ctx, theirs); err != nil {
		t.Errorf("after %v: %v", time.Since(start), err)
		w.Abort()
	}
	wg.Wait()
	acked := 0
	for _, ticket := range tickets {
		if ticket.Err() == nil && ticket.Wait(t.Context()) == nil {
			acked++
		}
	}
	if acked == 0 {
		t.Error("the old writer did nothing")
	}
	if err := UnsealShard(t.Context(), inner, testShard, nil); err != nil {
		t.Fatal(err)
	}
	if rows := rowsOf(t, mustOpen(t, inner, o)); len(rows) < acked || !slices.Equal(rows, wantSeq(0, len(rows))) {
		t.Errorf("%d rows were acknowledged, found are %v", acked, rows)
	}
}
