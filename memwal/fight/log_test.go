//go:build unix

package fight

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// Folders of a shard, as docs/format.md has them.
func walDir(shard uuid.UUID) string      { return "_mem_wal/" + shard.String() + "/wal/" }
func manifestDir(shard uuid.UUID) string { return "_mem_wal/" + shard.String() + "/manifest/" }

// logRow is a row as the log has it. Of a tombstone only the id is known.
type logRow struct {
	n     int64
	id    int64
	dead  bool
	epoch uint64
}

// history is the log, and the claims, as they are in the end.
type history struct {
	rows   []logRow          // by ordinal
	tail   wal.Tuple         // the place behind all that
	fences map[uint64]uint64 // epoch: rows below its fence
	dead   []wal.Header      // objects that are not part of the log, up to the first empty position
	live   int               // entries with rows
	claims []*manifest.Manifest
}

// readHistory reads the whole shard, each object by itself. Which entries are live
// is judged here, from the table in docs/protocol.md; anything that no writer of
// memwal may leave behind is an error.
func readHistory(ctx context.Context, store objstore.Store, shard uuid.UUID, keyed bool) (*history, error) {
	h := &history{fences: map[uint64]uint64{}, tail: wal.Start()}
	if err := h.readLog(ctx, store, walDir(shard), keyed); err != nil {
		return nil, err
	}
	return h, h.readManifests(ctx, store, manifestDir(shard))
}

func (h *history) readLog(ctx context.Context, store objstore.Store, dir string, keyed bool) error {
	t := &h.tail
	for pos := uint64(1); ; pos++ {
		data, err := store.Get(ctx, dir+wal.Name(pos))
		if errors.Is(err, objstore.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := wal.Decode(data, wal.DecodeOptions{})
		if err != nil {
			return fmt.Errorf("WAL entry %d: %w", pos, err)
		}
		is := e.Header
		live := is.PrevPutID.Same(t.PutID)
		if is.Fence {
			live = is.Epoch > t.Epoch
		}
		t.Position = pos
		switch {
		case !live:
			h.dead = append(h.dead, is)
		case is.FirstRow != uint64(len(h.rows)):
			err = fmt.Errorf("WAL entry %d begins at row %d, %d is next", pos, is.FirstRow, len(h.rows))
		case is.Fence:
			h.fences[is.Epoch] = is.FirstRow
			t.Epoch, t.PutID = is.Epoch, is.PutID
		case is.Epoch != t.Epoch:
			err = fmt.Errorf("WAL entry %d of epoch %d follows the last one where epoch %d is in force", pos, is.Epoch, t.Epoch)
		default:
			t.PutID, t.Generation = is.PutID, is.Generation
			h.live++
			err = h.add(e, keyed)
		}
		e.Release()
		t.NextRow = uint64(len(h.rows))
		if err != nil {
			return err
		}
	}
}

// add takes in the rows of an entry.
func (h *history) add(e *wal.Entry, keyed bool) error {
	for _, b := range e.Batches {
		id, text, num := b.Column(0).(*array.Int64), b.Column(1).(*array.String), b.Column(2).(*array.Int64)
		for i := range int(b.NumRows()) {
			r := logRow{id: id.Value(i), epoch: e.Header.Epoch}
			if keyed {
				r.dead = b.Column(3).(*array.Boolean).Value(i)
			}
			if !r.dead {
				r.n = num.Value(i)
				if r.id != idOf(keyed, r.n) || text.Value(i) != textOf(r.n) {
					return fmt.Errorf("row %d, n=%d, has id %d and text %.20q", len(h.rows), r.n, r.id, text.Value(i))
				}
			}
			h.rows = append(h.rows, r)
		}
	}
	return nil
}

// readManifests reads all versions, which must follow each other without a gap.
func (h *history) readManifests(ctx context.Context, store objstore.Store, dir string) error {
	var before *manifest.Manifest
	for v := uint64(1); ; v++ {
		data, err := store.Get(ctx, dir+manifest.Name(v))
		if errors.Is(err, objstore.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		m, err := manifest.Decode(data)
		switch {
		case err != nil:
			return fmt.Errorf("manifest version %d: %w", v, err)
		case before != nil && m.ParentCommitID != before.CommitID:
			return fmt.Errorf("manifest version %d is not built on version %d", v, v-1)
		case before == nil || m.Owner() != before.Owner():
			if before != nil && m.Epoch != before.Epoch+1 {
				return fmt.Errorf("manifest version %d claims epoch %d after %d", v, m.Epoch, before.Epoch)
			}
			h.claims = append(h.claims, m)
		}
		before = m
	}
	var versions uint64
	for o, err := range store.List(ctx, dir) {
		if err != nil {
			return err
		}
		if _, ok := manifest.ParseName(strings.TrimPrefix(o.Key, dir)); ok {
			versions++
		}
	}
	if before == nil || versions != before.Version {
		return fmt.Errorf("%d manifest versions, the first gap is above %+v", versions, before)
	}
	return nil
}

// prefixes returns what a snapshot must show of the first 0, 1, 2, … rows.
func (h *history) prefixes(keyed bool) []digest {
	all := make([]digest, 1, len(h.rows)+1)
	newest := map[int64]int{} // id: ordinal
	var d digest
	for at, r := range h.rows {
		if old, ok := newest[r.id]; keyed && ok && !h.rows[old].dead {
			d.remove(uint64(old), h.rows[old].n)
		}
		newest[r.id] = at
		if !r.dead {
			d.add(uint64(at), r.n)
		}
		all = append(all, d)
	}
	return all
}

// witness remembers what the contended objects of a shard held when they were
// first seen. Nobody may ever change one.
type witness struct {
	store objstore.Store
	dirs  []string
	seen  map[string]uint32 // key: checksum
}

func newWitness(store objstore.Store, shard uuid.UUID) *witness {
	return &witness{store, []string{walDir(shard), manifestDir(shard)}, map[string]uint32{}}
}

// look takes in what is new.
func (w *witness) look(ctx context.Context) error {
	return w.each(ctx, func(key string, get func() (uint32, error)) error {
		if _, known := w.seen[key]; known {
			return nil
		}
		sum, err := get()
		if err == nil {
			w.seen[key] = sum
		}
		return err
	})
}

// changed lists the objects that are not what they were.
func (w *witness) changed(ctx context.Context) (keys []string, err error) {
	left := len(w.seen)
	err = w.each(ctx, func(key string, get func() (uint32, error)) error {
		was, known := w.seen[key]
		if !known {
			return nil
		}
		left--
		sum, err := get()
		if err == nil && sum != was {
			keys = append(keys, key)
		}
		return err
	})
	if err == nil && left > 0 {
		keys = append(keys, fmt.Sprintf("%d that are gone", left))
	}
	return keys, err
}

func (w *witness) each(ctx context.Context, visit func(key string, get func() (uint32, error)) error) error {
	for _, dir := range w.dirs {
		for o, err := range w.store.List(ctx, dir) {
			if err != nil {
				return err
			}
			name := strings.TrimPrefix(o.Key, dir)
			_, entry := wal.ParseName(name)
			_, version := manifest.ParseName(name)
			if !entry && !version { // the hint is replaced at will
				continue
			}
			err := visit(o.Key, func() (uint32, error) {
				data, err := w.store.Get(ctx, o.Key)
				return crc32.ChecksumIEEE(data), err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
