package memwal

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// What memwal promises, as two sequential machines that porcupine compares
// histories with.
//
// The log model is the whole promise. There is one log, and each writer has what
// it found there and what it has accepted since. Calls do this:
//
//	open        the log ends where the new writer's fence stands; nothing below what is
//	            known to be durable is missing; the new writer shows exactly that
//	put         appends to the writer's rows, at the ordinal that the ticket tells
//	wait        the rows are visible, and with VisibleDurable in the log for ever
//	flush       the rows accepted before the call are in the log
//	snapshot    shows a prefix of the writer's rows: all that a wait or a snapshot
//	            before it has shown, nothing that is not in the log (VisibleDurable)
//	indexed     the same for the writer's own reads, durable or not
//	refresh     a reader reads a prefix of the log: all that is known to be in it
//	read        a reader shows a prefix of the log, and goes on showing it
//	closed      all accepted rows are in the log; nothing is accepted any more
//	ended       the writer has failed: nothing is accepted, no snapshot is given
//
// How far the log reaches is not seen directly. The model keeps the least that
// follows from what was returned; rows of the last writer above that may or may not
// be in it, until the next open or refresh tells, and then that stays. So a put
// without an answer needs no rule of its own: it is accepted, and never waited for.
//
// Two things the model does not say, since memwal does not promise them. A reader
// may show rows before the writer's own snapshots do: they are in the log, and the
// reply is still on its way to the writer. And a refresh reads first and shows what it
// has read some time after: meanwhile others find the same reader where it was, so a
// refresh is followed by a read of its own.
//
// The key model is the plain one: a register for each key. It is weaker and
// knows nothing of ordinals, prefixes and epochs, so that its histories can be
// long, and a mistake in the other model's finer rules cannot hide anything from it.

// linRow is a row as it was put.
type linRow struct {
	n    int64 // unique in its history; what column n has
	id   int64 // the key, from 0 to linKeys-1
	dead bool  // a delete
	more bool  // the next row is of the same batch: batches are never split
}

// linKeys is how many keys there are.
const linKeys = 4

// linKind is what was called.
type linKind uint8

const (
	linOpen linKind = iota
	linPut
	linWait
	linFlush
	linSnapshot
	linIndexed
	linRefresh
	linRead
	linClosed
	linEnded
)

func (k linKind) String() string {
	return [...]string{"open", "put", "wait", "flush", "snapshot", "indexed snapshot", "refresh", "read", "closed", "ended"}[k]
}

// linCall is a call of the log model.
type linCall struct {
	kind    linKind
	who     int  // the writer, or the reader
	indexed bool // the writer is VisibleIndexed
	rows    []linRow
	// puts says of linEnded that only puts were refused: a writer that is being
	// closed still gives snapshots.
	puts bool
}

// linReply is what it returned. Calls that failed are not in a history, but for
// linEnded.
type linReply struct {
	epoch uint64   // open
	row   uint64   // put: ordinal of the first row; wait, flush: the rows below are meant
	view  *linView // open, snapshot, indexed, refresh, read
}

// linView is everything that a snapshot says.
type linView struct {
	bound uint64
	rows  []linShown
	found [linKeys]linFound // by key; without a primary key nothing is looked up
}

type linShown struct {
	ordinal uint64
	id, n   int64
}

type linFound struct {
	presence Presence
	ordinal  uint64
	n        int64
}

// shows tells whether v is what a snapshot of these rows has to say.
func (v *linView) shows(rows []linRow, keyed bool) bool {
	if n := len(rows); n > 0 && rows[n-1].more {
		return false
	}
	var newest [linKeys]int
	for i, r := range rows {
		newest[r.id] = i + 1
	}
	rest := v.rows
	for i, r := range rows {
		if keyed && (r.dead || newest[r.id] != i+1) {
			continue
		}
		if len(rest) == 0 || rest[0] != (linShown{uint64(i), r.id, r.n}) {
			return false
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return false
	}
	for id, at := range newest {
		var want linFound
		switch {
		case !keyed || at == 0:
		case rows[at-1].dead:
			want.presence = Deleted
		default:
			want = linFound{Present, uint64(at - 1), rows[at-1].n}
		}
		if v.found[id] != want {
			return false
		}
	}
	return true
}

// linState is the state of the log model. It is immutable.
type linState struct {
	epoch   uint64 // in force
	current int    // the writer whose fence was put last
	// durable is the least that the log reaches: the rows of the current writer
	// below it are in the log.
	durable uint64
	writers []linWriterState // by number; 0 stands for the empty shard
	readers []uint64         // rows that a reader has shown, by number
}

// linWriterState is a writer. visible <= indexed <= len(rows); visible <= limit
// unless it is VisibleIndexed.
type linWriterState struct {
	rows             []linRow // never changed in place
	limit            uint64   // the log ended there for it; noLimit: it has no successor
	visible, indexed uint64   // the least that snapshots show
	closed, ended    bool     // puts are refused; snapshots too
}

const noLimit = math.MaxUint64

func (s linState) clone() linState {
	s.writers, s.readers = slices.Clone(s.writers), slices.Clone(s.readers)
	return s
}

// logged says that the rows of writer w below n are in the log. It returns false
// if they cannot be.
func (s *linState) logged(w int, n uint64) bool {
	x := &s.writers[w]
	if n > uint64(len(x.rows)) || n > x.limit {
		return false
	}
	if w == s.current {
		s.durable = max(s.durable, n)
	}
	return true
}

// log is what may be in the log: it ends somewhere between durable and the end.
func (s *linState) log() []linRow { return s.writers[s.current].rows }

// linLogModel is the log model for a table with or without a primary key.
func linLogModel(keyed bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return linState{writers: []linWriterState{{limit: noLimit}}} },
		Step: func(state, input, output any) (bool, any) {
			next := state.(linState).clone()
			ok := next.step(input.(linCall), output.(linReply), keyed)
			return ok, next
		},
		Equal: func(a, b any) bool { return a.(linState).equal(b.(linState)) },
		DescribeOperation: func(input, output any) string {
			return describeLin(input.(linCall), output.(linReply))
		},
		DescribeState: func(state any) string {
			s := state.(linState)
			return fmt.Sprintf("epoch %d, writer %d has %d rows, %d of them surely durable", s.epoch, s.current, len(s.log()), s.durable)
		},
	}
}

// step makes the call, and tells whether it could return that.
func (s *linState) step(c linCall, r linReply, keyed bool) bool {
	switch c.kind {
	case linOpen:
		return s.open(c.who, r, keyed)
	case linRefresh, linRead:
		return s.reader(c, r.view, keyed)
	}
	if c.who >= len(s.writers) {
		return false
	}
	w := &s.writers[c.who]
	switch c.kind {
	case linPut:
		if w.closed || r.row != uint64(len(w.rows)) {
			return false
		}
		w.rows = append(slices.Clip(w.rows), c.rows...)
		return true
	case linWait:
		if r.row > uint64(len(w.rows)) || !c.indexed && !s.logged(c.who, r.row) {
			return false
		}
		w.visible, w.indexed = max(w.visible, r.row), max(w.indexed, r.row)
		return true
	case linFlush:
		w.visible, w.indexed = max(w.visible, r.row), max(w.indexed, r.row)
		return s.logged(c.who, r.row)
	case linSnapshot, linIndexed:
		return s.snapshot(c, r.view, keyed)
	case linClosed:
		w.closed, w.ended = true, true
		return s.logged(c.who, uint64(len(w.rows)))
	case linEnded:
		w.closed, w.ended = true, w.ended || !c.puts
		return true
	}
	return false
}

func (s *linState) open(who int, r linReply, keyed bool) bool {
	n := r.view.bound
	log := s.log()
	if r.epoch <= s.epoch || n < s.durable || n > uint64(len(log)) || !r.view.shows(log[:n], keyed) {
		return false
	}
	s.writers[s.current].limit = n
	for who >= len(s.writers) {
		s.writers = append(s.writers, linWriterState{closed: true, ended: true})
	}
	s.writers[who] = linWriterState{rows: log[:n], limit: noLimit, visible: n, indexed: n}
	s.epoch, s.current, s.durable = r.epoch, who, n
	return true
}

func (s *linState) snapshot(c linCall, v *linView, keyed bool) bool {
	w := &s.writers[c.who]
	own := c.kind == linIndexed || c.indexed
	least := w.visible
	if own {
		least = w.indexed
	}
	if w.ended || v.bound < least || v.bound > uint64(len(w.rows)) || !v.shows(w.rows[:v.bound], keyed) {
		return false
	}
	w.indexed = max(w.indexed, v.bound)
	if own {
		return true
	}
	w.visible = v.bound
	return s.logged(c.who, v.bound)
}

func (s *linState) reader(c linCall, v *linView, keyed bool) bool {
	for c.who >= len(s.readers) {
		s.readers = append(s.readers, 0)
	}
	least := s.readers[c.who]
	if c.kind == linRefresh {
		least = s.durable
	}
	log := s.log()
	if v.bound < least || v.bound > uint64(len(log)) || !v.shows(log[:v.bound], keyed) {
		return false
	}
	if c.kind == linRead {
		s.readers[c.who] = v.bound
	}
	return s.logged(s.current, v.bound)
}

func (s linState) equal(o linState) bool {
	return s.epoch == o.epoch && s.current == o.current && s.durable == o.durable && slices.Equal(s.readers, o.readers) &&
		slices.EqualFunc(s.writers, o.writers, func(a, b linWriterState) bool {
			return a.limit == b.limit && a.visible == b.visible && a.indexed == b.indexed &&
				a.closed == b.closed && a.ended == b.ended && slices.Equal(a.rows, b.rows)
		})
}

func describeLin(c linCall, r linReply) string {
	var b strings.Builder
	who := "W"
	if c.kind == linRefresh || c.kind == linRead {
		who = "R"
	}
	fmt.Fprintf(&b, "%s%d %v", who, c.who, c.kind)
	for _, row := range c.rows {
		if row.dead {
			fmt.Fprintf(&b, " -%d", row.id)
		} else {
			fmt.Fprintf(&b, " %d=%d", row.id, row.n)
		}
	}
	switch c.kind {
	case linPut:
		fmt.Fprintf(&b, " at row %d", r.row)
	case linWait, linFlush:
		fmt.Fprintf(&b, " below row %d", r.row)
	case linOpen:
		fmt.Fprintf(&b, " epoch %d", r.epoch)
	}
	if v := r.view; v != nil {
		fmt.Fprintf(&b, ": %d rows, %v", v.bound, v.rows)
		for id, f := range v.found {
			if f.presence == Deleted {
				fmt.Fprintf(&b, " -%d", id)
			}
		}
	}
	return b.String()
}

// linAccess is a call of the key model.
type linAccess struct {
	key int64
	// write is what is put; linDeletedKey deletes. Zero reads.
	write int64
	// unknown says of a write that it is not known whether it took effect.
	unknown bool
}

// What a key holds if it is no value.
const (
	linAbsentKey  int64 = -1
	linDeletedKey int64 = -2
)

// linKeyModel is a register for each key. Reads return an int64.
func linKeyModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, linKeys)
			for _, op := range history {
				key := op.Input.(linAccess).key
				parts[key] = append(parts[key], op)
			}
			return parts
		},
		Init: func() []any { return []any{linAbsentKey} },
		Step: func(state, input, output any) []any {
			a := input.(linAccess)
			switch {
			case a.write == 0 && output == state:
				return []any{state}
			case a.write == 0:
				return nil
			case a.unknown:
				return []any{state, a.write}
			}
			return []any{a.write}
		},
		Hash: func(state any) uint64 { return uint64(state.(int64)) },
		DescribeOperation: func(input, output any) string {
			a := input.(linAccess)
			switch {
			case a.write == 0:
				return fmt.Sprintf("key %d is %v", a.key, output)
			case a.unknown:
				return fmt.Sprintf("key %d := %d, perhaps", a.key, a.write)
			}
			return fmt.Sprintf("key %d := %d", a.key, a.write)
		},
	}
	return m.ToModel()
}
