package wal

import (
	"fmt"

	"github.com/memwal/memwal-go/internal/fault"
)

// Tuple is a place in the log and all that is needed to go on from it: a floor.
// The start of a log is [Start].
type Tuple struct {
	// Position is the last position taken in; 0 before the first.
	Position uint64
	// Epoch is the one in force at Position.
	Epoch uint64
	// PutID is that of the last live entry at or below Position; zero if there
	// is none or if it has none.
	PutID PutID
	// NextRow is the ordinal of the next row: the rows of live entries up to Position.
	NextRow uint64
	// Generation is the one that the last rows belonged to, from 1.
	Generation uint64
}

// Start is the tuple of an empty log.
func Start() Tuple { return Tuple{Generation: 1} }

// Verdict says whether an entry belongs to the log.
type Verdict int

const (
	// Dead entries were left behind by a fenced writer: never acknowledged, skipped.
	Dead Verdict = iota
	// Live entries belong to the log.
	Live
)

// String implements fmt.Stringer.
func (v Verdict) String() string {
	if v == Live {
		return "live"
	}
	return "dead"
}

// Chain decides which entries are live. It is fed every entry in the order of
// positions and holds the tuple of what it has seen.
//
// The rules, for an entry e with the tuple t before it:
//
//	fence,  e.Epoch >  t.Epoch                      live; restarts the chain: t.Epoch = e.Epoch, t.PutID = e.PutID
//	fence,  e.Epoch <= t.Epoch                      dead
//	data,   e.PrevPutID = t.PutID, both present     live; t.PutID = e.PutID
//	data,   put-id present, otherwise               dead
//	data,   no put-id, t.PutID absent               live iff e.Epoch >= t.Epoch; t.Epoch = e.Epoch
//	data,   no put-id, t.PutID present              dead
//
// Why the previous put-id and not the epoch alone: a writer that was fenced may
// have puts in flight whose epoch is the one in force at the position where they
// land, because its successor's fence lies further down. Only the chain tells
// that something that they build on never became part of the log.
//
// A live entry of memwal must begin at the next ordinal, and a data entry whose
// previous put-id matches must have the epoch in force. A fence without a put-id
// that restarts a chain with put-ids means that another program took the log over.
type Chain struct {
	at       Tuple  // at.Position is the last position judged
	lastLive uint64 // <= at.Position
}

// NewChain returns a chain that goes on above t.
func NewChain(t Tuple) *Chain {
	return &Chain{at: t, lastLive: t.Position}
}

// Tuple returns the place of the last entry judged: its Position is that of the
// last entry, live or dead.
func (c *Chain) Tuple() Tuple { return c.at }

// LastLive returns the position of the last live entry, or that of the tuple
// that the chain began with if there was none since.
func (c *Chain) LastLive() uint64 { return c.lastLive }

// Judge takes in the entry at a position, with the number of rows that it holds.
// Positions must be given in order, without gaps. After an error the chain is
// where it was. Errors that concern the entry match [ErrCorrupt].
func (c *Chain) Judge(position uint64, h Header, rows int64) (Verdict, error) {
	if position != c.at.Position+1 {
		return Dead, fmt.Errorf("wal: judge position %d after %d: positions must follow each other", position, c.at.Position)
	}
	if rows < 0 || (h.Fence && rows != 0) {
		return Dead, &CorruptError{Position: position, Reason: fmt.Sprintf("entry (fence: %t) has %d rows", h.Fence, rows)}
	}
	next, verdict, err := c.at.judge(h, uint64(rows))
	if err != nil {
		return Dead, AtPosition(err, position)
	}
	next.Position = position
	c.at = next
	if verdict == Live {
		c.lastLive = position
	}
	return verdict, nil
}

// judge is the pure rule: the tuple after the entry, and the verdict.
func (t Tuple) judge(h Header, rows uint64) (Tuple, Verdict, error) {
	switch {
	case h.Fence:
		return t.judgeFence(h)
	case h.PutID.IsZero():
		return t.judgeForeign(h, rows)
	case fault.LivenessByEpoch:
		if h.Epoch < t.Epoch {
			return t, Dead, nil
		}
	case !h.PrevPutID.Same(t.PutID):
		return t, Dead, nil
	case h.Epoch != t.Epoch:
		return t, Dead, corruptf("entry %s follows %s, but has epoch %d where %d is in force",
			h.PutID, h.PrevPutID, h.Epoch, t.Epoch)
	}
	if err := t.checkFirstRow(h); err != nil {
		return t, Dead, err
	}
	t.PutID = h.PutID
	return t.take(h, rows)
}

func (t Tuple) judgeFence(h Header) (Tuple, Verdict, error) {
	if h.Epoch <= t.Epoch {
		return t, Dead, nil
	}
	if h.PutID.IsZero() && !t.PutID.IsZero() {
		return t, Dead, fmt.Errorf("%w: fence of epoch %d above epoch %d has no put-id", ErrForeignWriter, h.Epoch, t.Epoch)
	}
	if err := t.checkFirstRow(h); err != nil {
		return t, Dead, err
	}
	t.Epoch, t.PutID = h.Epoch, h.PutID
	return t, Live, nil
}

// judgeForeign is the rule for data entries of writers without put-ids.
func (t Tuple) judgeForeign(h Header, rows uint64) (Tuple, Verdict, error) {
	if !t.PutID.IsZero() || h.Epoch < t.Epoch {
		return t, Dead, nil
	}
	t.Epoch = h.Epoch
	return t.take(h, rows)
}

// checkFirstRow compares the recorded ordinal; other programs record none.
func (t Tuple) checkFirstRow(h Header) error {
	if h.Version != 0 && h.FirstRow != t.NextRow {
		return corruptf("entry %s begins at row %d where row %d is next", h.PutID, h.FirstRow, t.NextRow)
	}
	return nil
}

// take adds the rows of a live data entry.
func (t Tuple) take(h Header, rows uint64) (Tuple, Verdict, error) {
	if t.NextRow+rows < t.NextRow {
		return t, Dead, corruptf("row ordinals overflow: %d more after %d", rows, t.NextRow)
	}
	t.NextRow += rows
	if h.Generation != 0 {
		t.Generation = h.Generation
	}
	return t, Live, nil
}
