package memwal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// linScript builds a history by hand. Each call follows the one before unless it is
// given a time.
type linScript struct {
	keyed bool
	ops   []porcupine.Operation
	time  int64
}

func (s *linScript) call(c linCall, r linReply) *linScript {
	s.time += 10
	return s.during(s.time, s.time+5, c, r)
}

func (s *linScript) during(call, finish int64, c linCall, r linReply) *linScript {
	s.ops = append(s.ops, porcupine.Operation{ClientId: len(s.ops), Input: c, Call: call, Output: r, Return: finish})
	return s
}

// view is what a snapshot of these rows shows.
func (s *linScript) view(rows ...linRow) *linView {
	v := &linView{bound: uint64(len(rows))}
	newest := map[int64]int{}
	for i, r := range rows {
		newest[r.id] = i
	}
	for i, r := range rows {
		if s.keyed && newest[r.id] == i {
			f := &v.found[r.id]
			if *f = (linFound{presence: Deleted}); !r.dead {
				*f = linFound{Present, uint64(i), r.n}
			}
		}
		if !s.keyed || newest[r.id] == i && !r.dead {
			v.rows = append(v.rows, linShown{uint64(i), r.id, r.n})
		}
	}
	return v
}

func (s *linScript) open(w int, epoch uint64, rows ...linRow) *linScript {
	return s.call(linCall{kind: linOpen, who: w}, linReply{epoch: epoch, view: s.view(rows...)})
}

func (s *linScript) put(w int, at uint64, rows ...linRow) *linScript {
	return s.call(linCall{kind: linPut, who: w, rows: rows}, linReply{row: at})
}

// of makes a call of a kind that is answered with a row.
func (s *linScript) of(k linKind, w int, end uint64) *linScript {
	return s.call(linCall{kind: k, who: w}, linReply{row: end})
}

// sees makes a call of a kind that is answered with a view.
func (s *linScript) sees(k linKind, w int, rows ...linRow) *linScript {
	return s.call(linCall{kind: k, who: w}, linReply{view: s.view(rows...)})
}

// lazily makes the calls of writer w so far those of a VisibleIndexed one.
func (s *linScript) lazily(w int) *linScript {
	for i, op := range s.ops {
		c := op.Input.(linCall)
		c.indexed = c.who == w && c.kind != linRefresh && c.kind != linRead
		s.ops[i].Input = c
	}
	return s
}

// TestLinearizabilityLogModel gives the log model histories that are right and
// ones that are wrong: a check that accepts everything finds nothing.
func TestLinearizabilityLogModel(t *testing.T) {
	a, b, c := linRow{n: 1, id: 0}, linRow{n: 2, id: 1}, linRow{n: 3, id: 0}
	gone := linRow{n: 4, id: 0, dead: true}
	log := func() *linScript { return new(linScript).open(1, 1) }
	keyed := func() *linScript { return (&linScript{keyed: true}).open(1, 1) }
	for _, test := range []struct {
		name string
		s    *linScript
		ok   bool
	}{
		{"a put, acknowledged and shown", log().put(1, 0, a).of(linWait, 1, 1).sees(linSnapshot, 1, a), true},
		{"a put that is not acknowledged need not be shown", log().put(1, 0, a).sees(linSnapshot, 1), true},
		{"nor must it be hidden", log().put(1, 0, a).sees(linSnapshot, 1, a), true},
		{"an acknowledged put is not shown", log().put(1, 0, a).of(linWait, 1, 1).sees(linSnapshot, 1), false},
		{"acknowledged, then gone at the reopen", log().put(1, 0, a).of(linWait, 1, 1).open(2, 2), false},
		{"seen by a snapshot, then gone at the reopen", log().put(1, 0, a).sees(linSnapshot, 1, a).open(2, 2), false},
		{"seen by a reader, then gone at the reopen", log().put(1, 0, a).sees(linRefresh, 0, a).open(2, 2), false},
		{"flushed, then gone at the reopen", log().put(1, 0, a).of(linFlush, 1, 1).open(2, 2), false},
		{"closed, then gone at the reopen", log().put(1, 0, a).of(linClosed, 1, 0).open(2, 2), false},
		{"unanswered, and there at the reopen", log().put(1, 0, a).open(2, 2, a), true},
		{"unanswered, and not there at the reopen", log().put(1, 0, a).open(2, 2), true},
		{"unanswered, not there at the reopen, and there at the next", log().put(1, 0, a).open(2, 2).open(3, 3, a), false},
		{"unanswered, there at the reopen, and not at the next", log().put(1, 0, a).open(2, 2, a).open(3, 3), false},
		{"the second of two without the first", log().put(1, 0, a).put(1, 1, b).open(2, 2, b), false},
		{"acknowledged out of order", log().put(1, 0, a).put(1, 1, b).of(linWait, 1, 2).open(2, 2, a), false},
		{"a row twice", log().put(1, 0, a).of(linWait, 1, 1).open(2, 2, a, a), false},
		{"two rows in the other order", log().put(1, 0, a).put(1, 1, b).open(2, 2, b, a), false},
		{"a row that nobody put", log().open(2, 2, a), false},
		{"an ordinal given out twice", log().put(1, 0, a).put(1, 0, b), false},
		{"an ordinal left out", log().put(1, 0, a).put(1, 2, b), false},
		{"half a batch at the reopen", log().put(1, 0, linRow{n: 1, more: true}, b).open(2, 2, linRow{n: 1, more: true}), false},
		{"half a batch in a snapshot", log().put(1, 0, linRow{n: 1, more: true}, b).sees(linSnapshot, 1, linRow{n: 1, more: true}), false},
		{"half a batch in a reader", log().put(1, 0, linRow{n: 1, more: true}, b).sees(linRead, 0, linRow{n: 1, more: true}), false},
		{"a snapshot goes back", log().put(1, 0, a).sees(linSnapshot, 1, a).sees(linSnapshot, 1), false},
		{"a reader goes back", log().put(1, 0, a).sees(linRead, 0, a).sees(linRead, 0), false},
		{"a refresh misses what was acknowledged", log().put(1, 0, a).of(linWait, 1, 1).sees(linRefresh, 0), false},
		{"a read without a refresh may miss it", log().put(1, 0, a).of(linWait, 1, 1).sees(linRead, 0), true},
		{"a reader is ahead of its writer", log().put(1, 0, a).sees(linRefresh, 0, a).sees(linSnapshot, 1), true},
		{"a writer shows what is not in the log", log().put(1, 0, a).sees(linSnapshot, 1, a).sees(linRefresh, 0), false},
		{"its own reads may", log().put(1, 0, a).sees(linIndexed, 1, a).sees(linRefresh, 0), true},
		{"its own reads go back", log().put(1, 0, a).sees(linIndexed, 1, a).sees(linIndexed, 1), false},
		{"its own reads miss what is visible", log().put(1, 0, a).of(linWait, 1, 1).sees(linIndexed, 1), false},
		{"acknowledged after being fenced", log().open(2, 2).put(1, 0, a).of(linWait, 1, 1), false},
		{"accepted after being fenced, without an answer", log().open(2, 2).put(1, 0, a).put(2, 0, b).of(linWait, 2, 1), true},
		{"flushed after being fenced", log().put(1, 0, a).open(2, 2).of(linFlush, 1, 1), false},
		{"closed after being fenced", log().put(1, 0, a).open(2, 2).of(linClosed, 1, 0), false},
		{"a fenced writer shows what is not in the log", log().put(1, 0, a).open(2, 2).sees(linSnapshot, 1, a), false},
		{"a fenced writer shows what its successor found", log().put(1, 0, a).open(2, 2, a).sees(linSnapshot, 1, a), true},
		{"a fenced writer is behind", log().put(1, 0, a).open(2, 2, a).sees(linSnapshot, 1), true},
		{"a fenced writer shows its successor's rows", log().open(2, 2).put(2, 0, a).sees(linSnapshot, 1, a), false},
		{"the same epoch twice", log().open(2, 1), false},
		{"accepted after it was closed", log().of(linClosed, 1, 0).put(1, 0, a), false},
		{"accepted after it had failed", log().of(linEnded, 1, 0).put(1, 0, a), false},
		{"a snapshot after it had failed", log().of(linEnded, 1, 0).sees(linSnapshot, 1), false},
		{"lost by a crash before it was durable", log().put(1, 0, a).of(linWait, 1, 1).sees(linSnapshot, 1, a).lazily(1).open(2, 2), true},
		{"VisibleIndexed, and not shown", log().put(1, 0, a).of(linWait, 1, 1).sees(linSnapshot, 1).lazily(1), false},
		{"VisibleIndexed, flushed, and lost", log().put(1, 0, a).of(linFlush, 1, 1).lazily(1).open(2, 2), false},
		{"VisibleIndexed: the second without the first", log().put(1, 0, a).put(1, 1, b).lazily(1).open(2, 2, b), false},
		{"the newest version", keyed().put(1, 0, a).put(1, 1, c).sees(linSnapshot, 1, a, c), true},
		{"an older version", keyed().put(1, 0, a).put(1, 1, c).of(linWait, 1, 2).sees(linSnapshot, 1, a), false},
		{"a deleted key", keyed().put(1, 0, a).put(1, 1, gone).sees(linSnapshot, 1, a, gone), true},
		{"a deleted key comes back", keyed().put(1, 0, a).put(1, 1, gone).of(linWait, 1, 2).open(2, 2, a), false},
		{"a snapshot at the same time as the put", log().
			during(100, 200, linCall{kind: linPut, who: 1, rows: []linRow{a}}, linReply{}).
			during(110, 190, linCall{kind: linSnapshot, who: 1}, linReply{view: new(linScript).view(a)}), true},
		{"a snapshot before the put", log().
			during(100, 110, linCall{kind: linSnapshot, who: 1}, linReply{view: new(linScript).view(a)}).
			during(120, 130, linCall{kind: linPut, who: 1, rows: []linRow{a}}, linReply{}), false},
		{"two snapshots in an order that no put explains", log().
			during(100, 200, linCall{kind: linPut, who: 1, rows: []linRow{a}}, linReply{}).
			during(110, 120, linCall{kind: linSnapshot, who: 1}, linReply{view: new(linScript).view(a)}).
			during(130, 140, linCall{kind: linSnapshot, who: 1}, linReply{view: new(linScript).view()}), false},
	} {
		if got := porcupine.CheckOperations(linLogModel(test.s.keyed), test.s.ops); got != test.ok {
			t.Errorf("%s: the model says %t", test.name, got)
		}
	}
}

// TestLinearizabilityViews: a view that differs in anything is another one.
func TestLinearizabilityViews(t *testing.T) {
	rows := []linRow{{n: 1, id: 0}, {n: 2, id: 1}, {n: 3, id: 0}, {n: 4, id: 2}, {n: 5, id: 2, dead: true}}
	s := &linScript{keyed: true}
	for what, change := range map[string]func(*linView){
		"a row less":          func(v *linView) { v.rows = v.rows[:1] },
		"a row more":          func(v *linView) { v.rows = append(v.rows, linShown{4, 3, 9}) },
		"another value":       func(v *linView) { v.rows[0].n = 9 },
		"another ordinal":     func(v *linView) { v.rows[0].ordinal = 0 },
		"an older version":    func(v *linView) { v.found[0] = linFound{Present, 0, 1} },
		"another lookup":      func(v *linView) { v.found[1].ordinal = 2 },
		"deleted, not absent": func(v *linView) { v.found[3].presence = Deleted },
		"absent, not deleted": func(v *linView) { v.found[2].presence = Absent },
	} {
		v := s.view(rows...)
		if !v.shows(rows, true) {
			t.Fatalf("%+v is not what %v shows", v, rows)
		}
		if change(v); v.shows(rows, true) {
			t.Errorf("%s: not noticed", what)
		}
	}
}

// TestLinearizabilityKeyModel does the same with the model of keys.
func TestLinearizabilityKeyModel(t *testing.T) {
	type op struct {
		call, finish int64
		write        int64 // 0: a read
		unknown      bool
		read         int64
	}
	for _, test := range []struct {
		name string
		ops  []op
		ok   bool
	}{
		{"put, read", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 4, read: 5}}, true},
		{"nothing was put", []op{{call: 1, finish: 2, read: linAbsentKey}}, true},
		{"never put", []op{{call: 1, finish: 2, read: 5}}, false},
		{"lost", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 4, read: linAbsentKey}}, false},
		{"stale", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 4, write: 6}, {call: 5, finish: 6, read: 5}}, false},
		{"at the same time", []op{{call: 1, finish: 9, write: 5}, {call: 2, finish: 8, write: 6}, {call: 10, finish: 11, read: 5}}, true},
		{"back and forth", []op{{call: 1, finish: 9, write: 5}, {call: 2, finish: 8, write: 6}, {call: 10, finish: 11, read: 5}, {call: 12, finish: 13, read: 6}}, false},
		{"deleted", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 4, write: linDeletedKey}, {call: 5, finish: 6, read: linDeletedKey}}, true},
		{"deleted, and back", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 4, write: linDeletedKey}, {call: 5, finish: 6, read: 5}}, false},
		{"deleted, and absent", []op{{call: 3, finish: 4, write: linDeletedKey}, {call: 5, finish: 6, read: linAbsentKey}}, false},
		{"perhaps, yes", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 9, write: linDeletedKey, unknown: true}, {call: 10, finish: 11, read: linDeletedKey}}, true},
		{"perhaps, no", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 9, write: linDeletedKey, unknown: true}, {call: 10, finish: 11, read: 5}}, true},
		{"perhaps, no and then yes", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 9, write: linDeletedKey, unknown: true}, {call: 10, finish: 11, read: 5}, {call: 12, finish: 13, read: linDeletedKey}}, false},
		{"perhaps, no and then yes, while it may still happen", []op{{call: 1, finish: 2, write: 5}, {call: 3, finish: 20, write: linDeletedKey, unknown: true}, {call: 10, finish: 11, read: 5}, {call: 12, finish: 13, read: linDeletedKey}}, true},
	} {
		var history []porcupine.Operation
		for i, o := range test.ops {
			x := porcupine.Operation{ClientId: i, Input: linAccess{key: 2, write: o.write, unknown: o.unknown}, Call: o.call, Return: o.finish}
			if o.write == 0 {
				x.Output = o.read
			}
			history = append(history, x)
		}
		if got := porcupine.CheckOperations(linKeyModel(), history); got != test.ok {
			t.Errorf("%s: the model says %t", test.name, got)
		}
	}
}

// TestLinearizabilityReport: a wrong history ends in files that show it.
func TestLinearizabilityReport(t *testing.T) {
	s := new(linScript).open(1, 1).put(1, 0, linRow{n: 1}).of(linWait, 1, 1).open(2, 2)
	file := filepath.Join(t.TempDir(), "log")
	left, err := linDraw(file, linLogModel(false), s.ops)
	if err != nil {
		t.Fatal(err)
	}
	if want := "W2 open epoch 2: 0 rows"; len(left) != 1 || !strings.Contains(left[0], want) {
		t.Errorf("without a place: %v, want the open that lost a row", left)
	}
	for ext, want := range map[string]string{".html": "W2 open epoch 2", ".txt": "W1 put 0=1 at row 0"} {
		if data, err := os.ReadFile(file + ext); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s does not have %q (%v)", file+ext, want, err)
		}
	}
}
