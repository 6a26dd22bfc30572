package wal

import (
	"errors"
	"math"
	"testing"
)

// Ids of the histories below; none is the absent one.
var none PutID

func id(b byte) PutID { return PutID{b} }

func data(epoch uint64, put, prev PutID, first uint64) Header {
	return Header{Version: Version, Epoch: epoch, PutID: put, PrevPutID: prev, FirstRow: first, Generation: 1}
}

func fence(epoch uint64, put PutID, first uint64) Header {
	return Header{Version: Version, Epoch: epoch, PutID: put, FirstRow: first, Fence: true}
}

func foreign(epoch uint64) Header      { return Header{Epoch: epoch} }
func foreignFence(epoch uint64) Header { return Header{Epoch: epoch, Fence: true} }

func TestChainRules(t *testing.T) {
	type step struct {
		h       Header
		rows    int64
		want    Verdict
		corrupt bool
		err     error
	}
	tests := []struct {
		name  string
		from  Tuple
		steps []step
		want  Tuple
	}{
		{name: "first fence, then entries that chain from it", from: Start(), steps: []step{
			{h: fence(1, id(1), 0), want: Live},
			{h: data(1, id(2), id(1), 0), rows: 5, want: Live},
			{h: data(1, id(3), id(2), 5), rows: 2, want: Live},
		}, want: Tuple{Position: 3, Epoch: 1, PutID: id(3), NextRow: 7, Generation: 1}},
		{name: "absent never equals absent", from: Start(), steps: []step{
			{h: data(1, id(2), none, 0), rows: 5, want: Dead},
		}, want: Tuple{Position: 1, Generation: 1}},
		{name: "prev of nothing known is dead", from: Start(), steps: []step{
			{h: data(1, id(2), id(8), 0), rows: 5, want: Dead},
		}, want: Tuple{Position: 1, Generation: 1}},
		{name: "fence of the epoch in force is dead", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: 3, Generation: 1}, steps: []step{
			{h: fence(2, id(5), 3), want: Dead},
			{h: data(2, id(6), id(5), 3), rows: 1, want: Dead},
			{h: data(2, id(7), id(4), 3), rows: 1, want: Live},
		}, want: Tuple{Position: 7, Epoch: 2, PutID: id(7), NextRow: 4, Generation: 1}},
		{name: "fence of a lower epoch is dead", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}, steps: []step{
			{h: fence(1, id(5), 99), want: Dead},
		}, want: Tuple{Position: 5, Epoch: 2, PutID: id(4), Generation: 1}},
		{name: "fence restarts the chain and kills what the old writer had in flight", from: Tuple{Position: 4, Epoch: 1, PutID: id(4), NextRow: 3, Generation: 1}, steps: []step{
			{h: fence(2, id(20), 3), want: Live},
			{h: data(1, id(5), id(4), 3), rows: 1, want: Dead},
			{h: data(1, id(6), id(5), 4), rows: 1, want: Dead},
			{h: data(2, id(21), id(20), 3), rows: 4, want: Live},
		}, want: Tuple{Position: 8, Epoch: 2, PutID: id(21), NextRow: 7, Generation: 1}},
		{name: "a put in flight that lands below the fence is dead if something before it is missing", from: Tuple{Position: 4, Epoch: 1, PutID: id(4), NextRow: 3, Generation: 1}, steps: []step{
			{h: data(1, id(6), id(5), 4), rows: 1, want: Dead}, // id(5) never landed
			{h: fence(2, id(20), 3), want: Live},
		}, want: Tuple{Position: 6, Epoch: 2, PutID: id(20), NextRow: 3, Generation: 1}},
		{name: "F13: entries that go on above a dead object chain from the last live one", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: 3, Generation: 1}, steps: []step{
			{h: data(1, id(9), id(8), 2), rows: 9, want: Dead},
			{h: data(2, id(5), id(4), 3), rows: 1, want: Live},
		}, want: Tuple{Position: 6, Epoch: 2, PutID: id(5), NextRow: 4, Generation: 1}},
		{name: "F14: a floor keeps the epoch, so what its fence killed stays dead after it is gone", from: Tuple{Position: 10, Epoch: 2, PutID: id(20), NextRow: 3, Generation: 2}, steps: []step{
			{h: data(1, id(5), id(4), 3), rows: 1, want: Dead},
			{h: fence(2, id(6), 3), want: Dead},
		}, want: Tuple{Position: 12, Epoch: 2, PutID: id(20), NextRow: 3, Generation: 2}},
		{name: "matching prev with another epoch is corrupt", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}, steps: []step{
			{h: data(1, id(5), id(4), 0), rows: 1, corrupt: true},
			{h: data(3, id(5), id(4), 0), rows: 1, corrupt: true},
		}, want: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}},
		{name: "a live entry must begin at the next ordinal", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: 10, Generation: 1}, steps: []step{
			{h: data(2, id(5), id(4), 9), rows: 1, corrupt: true},
			{h: data(2, id(5), id(4), 11), rows: 1, corrupt: true},
			{h: fence(3, id(5), 11), corrupt: true},
		}, want: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: 10, Generation: 1}},
		{name: "an entry without rows is live and moves no ordinal", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: 10, Generation: 1}, steps: []step{
			{h: data(2, id(5), id(4), 10), want: Live},
		}, want: Tuple{Position: 5, Epoch: 2, PutID: id(5), NextRow: 10, Generation: 1}},
		{name: "the recorded generation is taken from live data only", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 3}, steps: []step{
			{h: Header{Version: 1, Epoch: 1, PutID: id(7), PrevPutID: id(6), Generation: 9}, rows: 1, want: Dead},
			{h: Header{Version: 1, Epoch: 2, PutID: id(5), PrevPutID: id(4), Generation: 4}, rows: 1, want: Live},
			{h: Header{Version: 1, Epoch: 2, PutID: id(6), PrevPutID: id(5), FirstRow: 1}, rows: 1, want: Live},
			{h: Header{Version: 1, Epoch: 3, PutID: id(8), FirstRow: 2, Fence: true, Generation: 7}, want: Live},
		}, want: Tuple{Position: 8, Epoch: 3, PutID: id(8), NextRow: 2, Generation: 4}},
		{name: "without put-ids: live iff the epoch is not below the highest", from: Start(), steps: []step{
			{h: foreign(1), rows: 3, want: Live},
			{h: foreignFence(2), want: Live},
			{h: foreign(1), rows: 3, want: Dead},
			{h: foreign(2), rows: 1, want: Live},
			{h: foreignFence(2), want: Dead},
			{h: foreign(3), rows: 1, want: Live},
			{h: foreign(2), rows: 1, want: Dead},
		}, want: Tuple{Position: 7, Epoch: 3, NextRow: 5, Generation: 1}},
		{name: "without put-ids: only before the first put-id", from: Start(), steps: []step{
			{h: foreign(1), rows: 3, want: Live},
			{h: fence(2, id(1), 3), want: Live},
			{h: foreign(2), rows: 3, want: Dead},
			{h: foreign(9), rows: 3, want: Dead},
			{h: foreignFence(1), want: Dead},
			{h: data(2, id(2), id(1), 3), rows: 1, want: Live},
		}, want: Tuple{Position: 6, Epoch: 2, PutID: id(2), NextRow: 4, Generation: 1}},
		{name: "F17: another program takes a log of ours over", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}, steps: []step{
			{h: foreignFence(3), err: ErrForeignWriter},
		}, want: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}},
		{name: "ordinals do not wrap", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: math.MaxUint64, Generation: 1}, steps: []step{
			{h: data(2, id(5), id(4), math.MaxUint64), rows: 1, corrupt: true},
		}, want: Tuple{Position: 4, Epoch: 2, PutID: id(4), NextRow: math.MaxUint64, Generation: 1}},
		{name: "impossible rows", from: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}, steps: []step{
			{h: fence(3, id(5), 0), rows: 1, corrupt: true},
			{h: data(2, id(5), id(4), 0), rows: -1, corrupt: true},
		}, want: Tuple{Position: 4, Epoch: 2, PutID: id(4), Generation: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewChain(tt.from)
			lastLive := tt.from.Position
			for i, s := range tt.steps {
				pos := c.Tuple().Position + 1
				got, err := c.Judge(pos, s.h, s.rows)
				var corrupt *CorruptError
				switch {
				case s.corrupt:
					if !errors.As(err, &corrupt) || corrupt.Position != pos {
						t.Fatalf("step %d: error %v, want a CorruptError at %d", i, err, pos)
					}
				case !errors.Is(err, s.err) || got != s.want:
					t.Fatalf("step %d: %v, %v, want %v, %v", i, got, err, s.want, s.err)
				}
				if got == Live {
					lastLive = pos
				}
			}
			if got := c.Tuple(); got != tt.want {
				t.Errorf("tuple %+v, want %+v", got, tt.want)
			}
			if c.LastLive() != lastLive {
				t.Errorf("last live %d, want %d", c.LastLive(), lastLive)
			}
		})
	}
}

// A chain that is stopped at any place and continued from its tuple judges the
// rest the same: a floor holds all that is needed.
func TestChainContinuesFromItsTuple(t *testing.T) {
	history := []struct {
		h    Header
		rows int64
	}{
		{foreign(1), 2}, {foreignFence(2), 0}, {foreign(1), 9}, {foreign(2), 1}, {fence(3, id(1), 3), 0},
		{foreign(2), 4}, {data(3, id(2), id(1), 3), 5}, {data(3, id(9), id(8), 1), 5}, {fence(4, id(3), 8), 0},
		{data(3, id(4), id(2), 8), 1}, {data(4, id(5), id(3), 8), 1}, {fence(4, id(6), 9), 0},
	}
	whole := NewChain(Start())
	var verdicts []Verdict
	var tuples []Tuple
	for i, e := range history {
		v, err := whole.Judge(uint64(i+1), e.h, e.rows)
		if err != nil {
			t.Fatal(err)
		}
		verdicts, tuples = append(verdicts, v), append(tuples, whole.Tuple())
	}
	for cut := range history {
		c := NewChain(tuples[cut])
		for i := cut + 1; i < len(history); i++ {
			v, err := c.Judge(uint64(i+1), history[i].h, history[i].rows)
			if err != nil || v != verdicts[i] || c.Tuple() != tuples[i] {
				t.Errorf("from %d, position %d: %v, %v, want %v", cut+1, i+1, v, err, verdicts[i])
			}
		}
	}
}

func TestChainWantsPositionsInOrder(t *testing.T) {
	c := NewChain(Tuple{Position: 4, Generation: 1})
	for _, pos := range []uint64{0, 3, 4, 6} {
		if _, err := c.Judge(pos, foreign(1), 1); err == nil {
			t.Errorf("position %d after 4 was accepted", pos)
		}
	}
}
