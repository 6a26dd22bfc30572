package memtable

import (
	"fmt"
	"math"
	"time"

	"github.com/memwal/memwal-go/index"
)

// MaxRows is the number of rows that a memtable can hold, whatever its limits:
// slots are 32 bits wide.
const MaxRows = index.MaxSlots

// Size is what one batch adds to a memtable.
type Size struct {
	Window int64 // bytes that its rows span
	// Pinned is the bytes of the buffers it keeps alive, which a slice shares with
	// the batch it was cut from; >= Window as a rule.
	Pinned int64
	Rows   int64
	// Entries is the most WAL entries that it and the rows before it that are in
	// none yet can take.
	Entries int
}

// Usage is what a memtable holds.
type Usage struct {
	Window   int64
	Pinned   int64
	Index    int64 // bytes of the index set, as far as rows were applied
	Rows     uint32
	Batches  int
	Since    time.Time // when the oldest row came; zero when there is none
	Entries  int       // WAL entries that its rows are in
	LogBytes int64     // bytes of these, and window bytes of the rows that are in none yet
}

// Limits say when a memtable is full. Zero means no limit.
type Limits struct {
	WindowBytes int64
	PinnedBytes int64
	IndexBytes  int64
	Rows        uint32
	Batches     int
	Age         time.Duration // of the oldest row
	Entries     int           // WAL entries that a replay of it must read
	LogBytes    int64         // bytes of these
}

// Reason names the limit that was met.
type Reason string

// The reasons. ByNothing is the zero value.
const (
	ByNothing     Reason = ""
	ByWindowBytes Reason = "WindowBytes"
	ByPinnedBytes Reason = "PinnedBytes"
	ByIndexBytes  Reason = "IndexBytes"
	ByRows        Reason = "Rows"
	ByBatches     Reason = "Batches"
	ByAge         Reason = "Age"
	ByEntries     Reason = "Entries"
	ByLogBytes    Reason = "LogBytes"
)

// LimitError says that a batch cannot be stored in a memtable.
type LimitError struct {
	Limit Reason // which one
	Have  int64  // what the batch would need
	Max   int64  // what there may be
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("memtable: %s would be %d, the limit is %d", e.Limit, e.Have, e.Max)
}

// Exceeded tells which limit a memtable with usage u would be beyond if add
// were appended at now; with a zero add, whether it is due to be rotated as it
// is. A memtable without rows is never full: a batch larger than a limit goes
// alone into its own memtable, and no limit, not even one below what an empty
// index takes, can make a writer rotate for ever. The only bound on a batch in
// an empty memtable is MaxRows, which Append enforces.
func (l Limits) Exceeded(u Usage, add Size, now time.Time) Reason {
	batches := min(add.Rows, 1)
	switch {
	case u.Rows == 0:
		return ByNothing
	case add.Rows > MaxRows-int64(u.Rows):
		return ByRows
	case l.Rows > 0 && add.Rows > int64(l.Rows)-int64(u.Rows):
		return ByRows
	case l.WindowBytes > 0 && add.Window > l.WindowBytes-u.Window:
		return ByWindowBytes
	case l.PinnedBytes > 0 && add.Pinned > l.PinnedBytes-u.Pinned:
		return ByPinnedBytes
	case l.IndexBytes > 0 && u.Index >= l.IndexBytes:
		// What the batch will add is not known before it is applied, so the last one
		// may go beyond.
		return ByIndexBytes
	case l.Batches > 0 && batches > int64(l.Batches)-int64(u.Batches):
		return ByBatches
	case u.Batches >= math.MaxUint32:
		return ByBatches
	case l.Entries > 0 && add.Entries > l.Entries-u.Entries:
		return ByEntries
	case l.LogBytes > 0 && add.Window > l.LogBytes-u.LogBytes:
		return ByLogBytes
	case l.Age > 0 && now.Sub(u.Since) >= l.Age:
		return ByAge
	default:
		return ByNothing
	}
}
