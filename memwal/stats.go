package memwal

import (
	"runtime"
	"time"

	"github.com/memwal/memwal-go/flusher"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
)

// Replay says what Open found in the log.
type Replay struct {
	replay.Loaded
	Duration time.Duration // claim, walk and fence
}

// Stats are the figures of a writer. They still answer once it has failed or
// was closed; what is in memory then counts as nothing.
type Stats struct {
	Epoch uint64 // fencing token of this writer

	// The cursors: exclusive counts of the rows of the shard's history.
	Accepted uint64 // taken by Put
	Indexed  uint64 // in every index
	Durable  uint64 // in the WAL
	Visible  uint64 // what readers see: min(Indexed, Durable), or Indexed with VisibleIndexed

	// Entries and fences of the log above the floor, and the bytes of entries.
	// Dead objects are left out.
	WALEntries uint64
	WALBytes   uint64
	// Open is what the last Open replayed, and OpenTime how long it took in all.
	Open     Replay
	OpenTime time.Duration

	// WAL are the figures of the flusher since Open.
	WAL flusher.Stats
	// Requests to the store since Open, each attempt counted.
	Requests objstore.CounterValues
	// Cost is what Requests cost at Options.Prices. What a month would cost at the
	// present rate follows from two calls: the difference over the time between them.
	Cost objstore.Cost

	// Memory. Frozen memtables stay until the writer is closed; with WALOnly, until
	// their rows are durable.
	Generation    uint64 // of the active memtable
	Memtables     int    // frozen ones and the active one
	ResidentBytes int64  // rows and indexes
	IndexBytes    int64  // indexes alone
	Snapshots     int64  // open ones
}

// Stats returns the current figures. Each is exact; taken one after the other,
// they need not be of the same moment.
func (w *Writer) Stats() Stats {
	defer runtime.KeepAlive(w)
	return w.c.stats()
}

func (c *core) stats() Stats {
	s := Stats{
		Epoch: c.owner.Epoch,
		// The lower cursors first, so that none seems to be ahead.
		Indexed: c.cursors.Indexed(), Durable: c.cursors.Durable(),
		Open: c.opened.replay, OpenTime: c.opened.took,
		WAL: c.flusher.Stats(), Requests: c.counters.Snapshot(),
		Snapshots: c.snapshots.Load(),
	}
	s.Cost = s.Requests.Cost(*c.opts.Prices)
	s.Accepted = c.cursors.Accepted()
	s.Visible = s.Indexed
	if c.opts.Visibility == VisibleDurable {
		s.Visible = min(s.Indexed, s.Durable)
	}
	loaded := s.Open.Loaded
	s.WALEntries = loaded.Entries + loaded.Fences + 1 + s.WAL.Entries
	s.WALBytes = loaded.Bytes + s.WAL.Bytes
	if v := c.acquireView(); v != nil {
		defer v.release()
		s.Memtables = len(v.tables)
		s.Generation = v.tables[len(v.tables)-1].Generation()
		s.ResidentBytes, s.IndexBytes = v.usage()
	}
	return s
}
