package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// oracle knows the log as it is, past all faults, and what is gone of it. It has
// its own rule for what is live, so that a mistake in the library's does not make
// it blind.
type oracle struct {
	disk objstore.Store

	// mu guards what the recycler reads, and what requests tell when they are applied.
	mu      sync.Mutex
	entries []logEntry        // by position, from 1
	claimed uint64            // the highest epoch in a manifest
	by      map[uint64]*link  // whose claim an epoch is
	sealed  bool              // a manifest was of a sealed shard
	beaten  map[uint64]uint64 // by epoch whose fence stood: the highest one claimed by then, if higher
	rows    []row             // of the live ones: the shard's history, by ordinal
	epochs  []uint64          // of their entries

	issued map[int64]issue // by n
	buried map[int64]int   // by id: deletions that were put, less those in the history
	seen   map[int64]bool  // n that are in the history
	last   map[int]int64   // the last n in it, by incarnation
	acked  map[uint64]ack  // by ordinal

	floors   map[uint64]uint64 // floors that a commit was tried for: position to next row
	maxFloor uint64            // the highest of their positions
}

// logEntry is an object that was found at a position when it was the log's end.
type logEntry struct {
	epoch uint64
	putID wal.PutID
	fence bool
	live  bool
	after wal.Tuple // the tuple after it
}

// issue is a row that was put, by an incarnation of a process.
type issue struct {
	row
	by int
}

// ack is a row that a writer of that epoch acknowledged.
type ack struct {
	row
	epoch uint64
}

func newOracle(disk objstore.Store) *oracle {
	return &oracle{
		disk: disk, by: map[uint64]*link{}, buried: map[int64]int{}, issued: map[int64]issue{}, seen: map[int64]bool{}, last: map[int]int64{},
		acked: map[uint64]ack{}, floors: map[uint64]uint64{0: 0}, beaten: map[uint64]uint64{},
	}
}

// end is the tuple after the last position that was found.
func (o *oracle) end() wal.Tuple {
	if n := len(o.entries); n > 0 {
		return o.entries[n-1].after
	}
	return wal.Start()
}

// look takes in what the log has got.
func (o *oracle) look() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		pos := uint64(len(o.entries)) + 1
		data, err := o.disk.Get(context.Background(), walDir+wal.Name(pos))
		if errors.Is(err, objstore.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := o.take(pos, data); err != nil {
			return fmt.Errorf("position %d: %w", pos, err)
		}
	}
}

func (o *oracle) take(pos uint64, data []byte) error {
	e, err := wal.Decode(data, wal.DecodeOptions{})
	if err != nil {
		return err
	}
	defer e.Release()
	h, t := e.Header, o.end()
	var live bool
	if h.Fence {
		live = h.Epoch > t.Epoch
	} else {
		live = h.PrevPutID == t.PutID
	}
	t.Position = pos
	if live {
		if !h.Fence && h.Epoch != t.Epoch {
			return fmt.Errorf("a live entry of epoch %d, where epoch %d is in force", h.Epoch, t.Epoch)
		}
		rows, err := rowsOf(e)
		if err != nil {
			return err
		}
		if h.FirstRow != t.NextRow {
			return fmt.Errorf("begins at row %d, where row %d is next", h.FirstRow, t.NextRow)
		}
		for _, r := range rows {
			if err := o.add(r, h.Epoch); err != nil {
				return err
			}
		}
		t.Epoch, t.PutID, t.NextRow = h.Epoch, h.PutID, uint64(len(o.rows))
		if h.Generation > 0 {
			t.Generation = h.Generation
		}
	}
	o.entries = append(o.entries, logEntry{h.Epoch, h.PutID, h.Fence, live, t})
	return nil
}

// add adds a row to the history.
func (o *oracle) add(r row, epoch uint64) error {
	at := len(o.rows)
	o.rows, o.epochs = append(o.rows, r), append(o.epochs, epoch)
	if r.dead { // it has the key only
		if o.buried[r.id]--; o.buried[r.id] < 0 {
			return fmt.Errorf("row %d is a deletion of %d, which was deleted less often", at, r.id)
		}
		return nil
	}
	put, ok := o.issued[r.n]
	switch {
	case !ok || put.row != r:
		return fmt.Errorf("row %d is %v, which nobody put", at, r)
	case o.seen[r.n]:
		return fmt.Errorf("row %d, %v, is in the log twice", at, r)
	case r.n < o.last[put.by]:
		return fmt.Errorf("row %d, %v, comes after n=%d of the same writer", at, r, o.last[put.by])
	}
	o.seen[r.n], o.last[put.by] = true, r.n
	return nil
}

// acknowledge takes in that a writer told its caller that a row is durable.
func (o *oracle) acknowledge(at uint64, r row, epoch uint64) error {
	if other, ok := o.acked[at]; ok {
		return fmt.Errorf("row %d was acknowledged twice: %v and %v", at, other.row, r)
	}
	o.acked[at] = ack{r, epoch}
	switch {
	case at >= uint64(len(o.rows)):
		return fmt.Errorf("row %d, %v, was acknowledged, and the log has %d rows", at, r, len(o.rows))
	case o.rows[at] != r.stored() || o.epochs[at] != epoch:
		return fmt.Errorf("row %d was acknowledged as %v of epoch %d, and is %v of epoch %d in the log", at, r, epoch, o.rows[at], o.epochs[at])
	}
	return nil
}

// acknowledged is the number of rows that everybody must see by now, except those
// that a writer of epoch or above acknowledged.
func (o *oracle) acknowledged(epoch uint64) (n uint64) {
	for at, a := range o.acked {
		if a.epoch < epoch {
			n = max(n, at+1)
		}
	}
	return n
}

// floorsFor returns the tuples that a writer with so many durable rows can move
// the floor to: of live entries, whose rows it knows to be durable.
func (o *oracle) floorsFor(durable, above uint64) []wal.Tuple {
	var found []wal.Tuple
	for _, e := range o.entries {
		if e.live && e.after.NextRow <= durable && e.after.Position > above {
			found = append(found, e.after)
		}
	}
	return found
}

// landed takes in that an object was created over a link, and says what is in it.
func (o *oracle) landed(key string, by *link) (content string, err error) {
	data, err := o.disk.Get(context.Background(), key)
	if err != nil {
		return "", nil // and is gone again
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case strings.HasPrefix(key, manifestDir):
		m, err := manifest.Decode(data)
		if err != nil {
			return "", err
		}
		if m.Epoch > o.claimed {
			o.claimed, o.by[m.Epoch] = m.Epoch, by
		}
		o.sealed = o.sealed || m.Status == manifest.Sealed
		return fmt.Sprintf(" (epoch %d, floor %d)", m.Epoch, m.RowsFloor().Position), nil
	case strings.HasPrefix(key, walDir):
		h, err := wal.DecodeHeader(data)
		if err != nil {
			return "", err
		}
		if !h.Fence {
			return fmt.Sprintf(" (epoch %d, rows from %d)", h.Epoch, h.FirstRow), nil
		}
		if o.claimed > h.Epoch {
			o.beaten[h.Epoch] = o.claimed
		}
		return fmt.Sprintf(" (fence of epoch %d, next row %d)", h.Epoch, h.FirstRow), nil
	}
	return "", nil
}

// rivalOf says whether somebody has claimed the shard after epoch, other than by own,
// which may be nil.
func (o *oracle) rivalOf(epoch uint64, own *link) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for e, by := range o.by {
		if e > epoch && (own == nil || by != own) {
			return true
		}
	}
	return false
}

// lastClaim is the highest epoch that was claimed.
func (o *oracle) lastClaim() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claimed
}

func (o *oracle) wasSealed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sealed
}

// checkClaim is called when an open has returned: nobody had claimed the shard after
// it, before its fence stood.
func (o *oracle) checkClaim(epoch uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if by := o.beaten[epoch]; by > 0 {
		return fmt.Errorf("an open of epoch %d returned, but epoch %d was claimed before its fence stood", epoch, by)
	}
	return nil
}

// isLive says whether an object at a position is known to be live. What was put where
// an entry had been recycled is dead.
func (o *oracle) isLive(pos uint64, id wal.PutID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pos > uint64(len(o.entries)) {
		return false
	}
	e := o.entries[pos-1]
	return e.live && e.putID == id
}

// dead is the number of dead entries so far.
func (o *oracle) dead() (n int) {
	for _, e := range o.entries {
		if !e.live {
			n++
		}
	}
	return n
}

// checkSnapshot holds a snapshot against the history. first is the ordinal of the
// first row that its opener loaded.
func (o *oracle) checkSnapshot(s *memwal.Snapshot, first uint64, keyed bool) error {
	bound := s.Bound()
	if bound > uint64(len(o.rows)) {
		return fmt.Errorf("a snapshot shows %d rows, the log has %d", bound, len(o.rows))
	}
	first = min(first, bound)
	newest := map[int64]uint64{}
	for at := first; at < bound; at++ {
		newest[o.rows[at].id] = at
	}
	var want []row
	for at := first; at < bound; at++ {
		if r := o.rows[at]; newest[r.id] == at && !r.dead {
			want = append(want, r)
		}
	}
	got, err := scan(s)
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("scan of rows %d to %d: %v %v, want %v", first, bound, got, err, want)
	}
	got, err = rangeByN(s)
	slices.SortFunc(want, func(a, b row) int { return int(a.n - b.n) })
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("range over rows %d to %d: %v %v, want %v", first, bound, got, err, want)
	}
	if !keyed {
		return nil
	}
	for id := range int64(keys) {
		found, err := s.Lookup(context.Background(), id)
		if err != nil {
			return err
		}
		at, known := newest[id]
		want := memwal.Absent
		switch {
		case known && o.rows[at].dead:
			want = memwal.Deleted
		case known:
			want = memwal.Present
		}
		if found.Presence != want || want == memwal.Present && found.Ordinal != at {
			return fmt.Errorf("lookup of %d in rows %d to %d: %v at %d, want %v at %d", id, first, bound, found.Presence, found.Ordinal, want, at)
		}
	}
	return nil
}
