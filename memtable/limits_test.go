package memtable

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestM03_LimitsAreMetBeforeTheyAreExceeded(t *testing.T) {
	born := time.Unix(1000, 0)
	limits := Limits{WindowBytes: 1000, PinnedBytes: 3000, IndexBytes: 500, Rows: 100, Batches: 10, Age: time.Minute}
	some := Usage{Window: 400, Pinned: 1000, Index: 10, Rows: 40, Batches: 4, Since: born}
	with := func(change func(*Usage)) Usage { u := some; change(&u); return u }
	batch := Size{Window: 600, Pinned: 2000, Rows: 60}
	for _, c := range []struct {
		name   string
		limits Limits
		usage  Usage
		add    Size
		now    time.Time
		want   Reason
	}{
		{"exactly full is not beyond", limits, some, batch, born, ByNothing},
		{"one byte of the rows", limits, some, Size{Window: 601, Pinned: 2000, Rows: 60}, born, ByWindowBytes},
		{"one byte kept alive", limits, some, Size{Window: 600, Pinned: 2001, Rows: 60}, born, ByPinnedBytes},
		{"one row", limits, some, Size{Window: 600, Pinned: 2000, Rows: 61}, born, ByRows},
		{"index below", limits, with(func(u *Usage) { u.Index = 499 }), batch, born, ByNothing},
		{"index there", limits, with(func(u *Usage) { u.Index = 500 }), batch, born, ByIndexBytes},
		{"last batch", limits, with(func(u *Usage) { u.Batches = 9 }), batch, born, ByNothing},
		{"one batch", limits, with(func(u *Usage) { u.Batches = 10 }), batch, born, ByBatches},
		{"rotating does not count a batch", limits, with(func(u *Usage) { u.Batches = 10 }), Size{}, born, ByNothing},
		{"young", limits, some, Size{}, born.Add(time.Minute - 1), ByNothing},
		{"old", limits, some, Size{}, born.Add(time.Minute), ByAge},
		{"no limits", Limits{}, with(func(u *Usage) { u.Window, u.Pinned, u.Index, u.Batches = 1<<60, 1<<60, 1<<60, 1<<30 }), batch, born.Add(time.Hour * 1e6), ByNothing},
		{"an empty one takes anything", limits, Usage{Index: 1 << 40}, Size{Window: 1 << 40, Pinned: 1 << 40, Rows: 1 << 20}, born, ByNothing},
		{"slots, the last one", Limits{}, with(func(u *Usage) { u.Rows = MaxRows - 1 }), Size{Rows: 1}, born, ByNothing},
		{"slots", Limits{}, with(func(u *Usage) { u.Rows = MaxRows }), Size{Rows: 1}, born, ByRows},
		{"slots, a huge batch", Limits{}, some, Size{Rows: math.MaxInt64}, born, ByRows},
		{"bytes, a huge batch", limits, some, Size{Window: math.MaxInt64, Rows: 1}, born, ByWindowBytes},
		{"number of batches", Limits{}, with(func(u *Usage) { u.Batches = math.MaxUint32 }), Size{Rows: 1}, born, ByBatches},
		{"entries, the last one", Limits{Entries: 5}, with(func(u *Usage) { u.Entries = 3 }), Size{Rows: 1, Entries: 2}, born, ByNothing},
		{"one entry", Limits{Entries: 5}, with(func(u *Usage) { u.Entries = 4 }), Size{Rows: 1, Entries: 2}, born, ByEntries},
		{"bytes of the log", Limits{LogBytes: 500}, with(func(u *Usage) { u.LogBytes = 400 }), Size{Rows: 1, Window: 100}, born, ByNothing},
		{"one byte of the log", Limits{LogBytes: 500}, with(func(u *Usage) { u.LogBytes = 401 }), Size{Rows: 1, Window: 100}, born, ByLogBytes},
		{"an empty one has no entries to count", Limits{Entries: 1, LogBytes: 1}, Usage{}, Size{Rows: 1, Window: 2, Entries: 2}, born, ByNothing},
		{"beyond already", limits, with(func(u *Usage) { u.Rows = 200 }), Size{}, born, ByRows},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.limits.Exceeded(c.usage, c.add, c.now); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Slots are 32 bits wide. Neither a batch nor a sum of batches may go beyond,
// on any path that appends.
func TestM03_AppendRefusesWhatSlotsCannotNumber(t *testing.T) {
	m := New(Config{Generation: 1, Schema: nullSchema})
	defer m.Release()
	appendRows := func(rows int64) error {
		rec := null(rows)
		defer rec.Release()
		return m.Append(rec, 1, 1)
	}
	for _, rows := range []int64{1 << 31, MaxRows - 1<<31 - 1} {
		if err := appendRows(rows); err != nil {
			t.Fatal(err)
		}
	}
	for _, rows := range []int64{2, 1 << 32, 1<<32 + 1} {
		err := appendRows(rows)
		if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Limit != ByRows || limit.Max != MaxRows {
			t.Errorf("%d rows too many: %v", rows, err)
		}
	}
	if m.Rows() != MaxRows-1 || m.Batches() != 2 || m.WindowBytes() != 2 || m.PinnedBytes() != 2 {
		t.Errorf("a refused batch left something: %+v", m.Usage())
	}
	if err := appendRows(1); err != nil {
		t.Errorf("the last row: %v", err)
	}
	if i := m.FindBatch(MaxRows - 1); i != 2 {
		t.Errorf("the last row is in batch %d", i)
	}
}

func TestAgeCountsFromTheFirstRow(t *testing.T) {
	mem := checked(t)
	now := time.Unix(1000, 0)
	m := New(Config{Generation: 1, Schema: plainSchema, Created: now, Now: func() time.Time { return now }})
	defer m.Release()
	limits := Limits{Age: time.Minute}
	now = now.Add(time.Hour)
	if m.Full(limits, Size{}, now) {
		t.Error("a memtable without rows is due to be rotated")
	}
	put(t, m, plain(mem, 0, 0))
	now = now.Add(time.Hour)
	put(t, m, plain(mem, 0, 1))
	now = now.Add(time.Minute - 1)
	put(t, m, plain(mem, 1, 1))
	if m.Full(limits, Size{}, now) {
		t.Error("the age counts from before the first row")
	}
	if now = now.Add(1); !m.Full(limits, Size{}, now) {
		t.Error("the age counts from after the first row")
	}
}
