package soak

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Violation is a promise of memwal that was not kept.
type Violation struct {
	Lost uint64 // acknowledged rows that are not there
	What string
}

func (v *Violation) Error() string { return v.What }

func violated(format string, args ...any) error {
	return &Violation{What: fmt.Sprintf(format, args...)}
}

// incarnation is what the ledger knows of the rows of one Open: counts, from its
// first row on. acked ≤ shown ≤ issued.
type incarnation struct {
	number      uint32
	epoch, base uint64
	issued      uint64 // rows that may be found
	acked       uint64 // rows acknowledged to their putter
	shown       uint64 // rows that a snapshot has shown, or that were acknowledged
	limit       uint64 // rows beyond that were put after SealShard had returned
	failed      uint64 // rows from this one on are of puts that have failed
}

// end is the ordinal behind its first rows rows.
func (i *incarnation) end(rows uint64) uint64 { return i.base + rows }

func (i *incarnation) String() string {
	return fmt.Sprintf("incarnation %d (epoch %d, from row %d, %d issued, %d acknowledged, %d shown)",
		i.number, i.epoch, i.base, i.issued, i.acked, i.shown)
}

// ledger knows which row stands at which ordinal of a shard, and which of them
// must not be lost. Its methods are safe for concurrent use.
type ledger struct {
	mu struct {
		sync.Mutex
		list   []*incarnation // by epoch
		sealed bool           // SealShard has returned, UnsealShard was not called since
	}
}

// segment is a run of rows of one incarnation: those from ordinal from up to and
// without to, the first of them its first.
type segment struct {
	incarnation uint32
	from, to    uint64
}

// open records an Open that has returned, before its writer takes rows. base is
// the number of rows that it found.
func (l *ledger) open(number uint32, epoch, base uint64) (*incarnation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inc := &incarnation{number: number, epoch: epoch, base: base, limit: math.MaxUint64, failed: math.MaxUint64}
	if l.mu.sealed {
		inc.limit = 0
	}
	at, same := slices.BinarySearchFunc(l.mu.list, epoch, func(i *incarnation, e uint64) int { return cmp.Compare(i.epoch, e) })
	if same {
		return nil, violated("two opens have epoch %d: %v and one that found %d rows", epoch, l.mu.list[at], base)
	}
	l.mu.list = slices.Insert(l.mu.list, at, inc)
	if at == 0 && base > 0 {
		return nil, violated("the first open, of epoch %d, found %d rows that nobody has put", epoch, base)
	}
	for _, i := range []int{at - 1, at} { // against the one before and the one behind
		if i >= 0 && i+1 < len(l.mu.list) {
			if err := succeeds(l.mu.list[i], l.mu.list[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return inc, nil
}

// succeeds checks what must be true of an incarnation and the next one by epoch.
func succeeds(i, next *incarnation) error {
	switch {
	case next.base < i.end(i.acked):
		lost := i.end(i.acked) - next.base
		return &Violation{Lost: lost, What: fmt.Sprintf("%d acknowledged rows are lost: the open of epoch %d found %d rows, but of %v it should have found those up to %d",
			lost, next.epoch, next.base, i, i.end(i.acked))}
	case next.base < i.end(i.shown):
		return violated("rows that were shown are gone: the open of epoch %d found %d rows, but of %v those up to %d were shown",
			next.epoch, next.base, i, i.end(i.shown))
	case next.base > i.end(i.issued):
		return violated("the open of epoch %d found %d rows, but %v had issued only those up to %d", next.epoch, next.base, i, i.end(i.issued))
	}
	return nil
}

// issue records that rows of inc up to its count rows are about to be put.
func (l *ledger) issue(inc *incarnation, rows uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inc.issued = max(inc.issued, rows)
}

// accepted records that the writer of inc has failed and took no more than so
// many rows: the others must never be found.
func (l *ledger) accepted(inc *incarnation, rows uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rows > inc.issued || rows < inc.shown {
		return violated("the writer says that it took %d rows of %v", rows, inc)
	}
	inc.issued = rows
	return nil
}

// acknowledge records that the first rows rows of inc were acknowledged.
func (l *ledger) acknowledge(inc *incarnation, rows uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case rows > inc.issued:
		return violated("%d rows were acknowledged of %v", rows, inc)
	case rows > inc.failed:
		return violated("a put of the rows from %d on had failed before rows up to %d were acknowledged of %v", inc.failed, rows, inc)
	case rows > inc.limit:
		return violated("row %d of %v was put after SealShard had returned, and acknowledged", inc.limit, inc)
	}
	inc.acked = max(inc.acked, rows)
	inc.shown = max(inc.shown, rows)
	return l.keepsLocked(inc)
}

// keepsLocked checks inc against its successor.
func (l *ledger) keepsLocked(inc *incarnation) error {
	i := slices.Index(l.mu.list, inc)
	if i+1 < len(l.mu.list) {
		return succeeds(inc, l.mu.list[i+1])
	}
	return nil
}

// fail records that a put of inc has failed whose rows come after the first rows rows.
func (l *ledger) fail(inc *incarnation, rows uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	inc.failed = min(inc.failed, rows)
	if inc.acked > rows {
		return violated("a put of the rows from %d on failed, though %d rows were acknowledged of %v", rows, inc.acked, inc)
	}
	return nil
}

// closed records that Close of inc's writer has returned nil.
func (l *ledger) closed(inc *incarnation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if inc.acked != inc.issued {
		return violated("Close returned nil, but not all rows were acknowledged of %v", inc)
	}
	return nil
}

// show records that somebody was shown the first bound rows of the shard.
func (l *ledger) show(bound uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bound == 0 {
		return nil
	}
	for _, inc := range slices.Backward(l.mu.list) {
		if inc.base >= bound {
			continue
		}
		rows := bound - inc.base
		if rows > inc.issued {
			return violated("a snapshot shows %d rows, but the last are of %v", bound, inc)
		}
		inc.shown = max(inc.shown, rows)
		return l.keepsLocked(inc)
	}
	return violated("a snapshot shows %d rows, but nobody has put any", bound)
}

// history says whose rows the first bound ones of the shard are.
func (l *ledger) history(bound uint64) []segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []segment
	for i, inc := range l.mu.list {
		to := bound
		if i+1 < len(l.mu.list) {
			to = min(to, l.mu.list[i+1].base)
		}
		if inc.base < to {
			all = append(all, segment{inc.number, inc.base, to})
		}
	}
	return all
}

// acknowledged is the number of rows that every open and refresh that begins now
// must find.
func (l *ledger) acknowledged() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n uint64
	for _, inc := range l.mu.list {
		if inc.acked > 0 {
			n = max(n, inc.end(inc.acked))
		}
	}
	return n
}

// sums are the rows issued and acknowledged by all incarnations.
func (l *ledger) sums() (issued, acked uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, inc := range l.mu.list {
		issued += inc.issued
		acked += inc.acked
	}
	return issued, acked
}

// seal records that SealShard has returned: rows that are put from now on must not
// be acknowledged, until unseal.
func (l *ledger) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sealed = true
	for _, inc := range l.mu.list {
		inc.limit = min(inc.limit, inc.issued)
	}
}

// unseal records that UnsealShard is about to be called.
func (l *ledger) unseal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sealed = false
}

// asViolation finds the violation in err.
func asViolation(err error) (*Violation, bool) { return errors.AsType[*Violation](err) }
