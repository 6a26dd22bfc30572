package memwal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/schema"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/replay"
)

// adoption checks a shard that another program began, before it is claimed.
// Claiming ends that program's writer for good, so whatever could keep the shard
// from being served is found first: the log is read as the takeover will read it,
// and every row is held against what Put and Delete would accept.
//
// What the other program appends between the check and the fence is not checked;
// a column that changes its type in that moment makes the open fail after the claim.
type adoption struct {
	c *core
	shardIO

	from    *arrow.Schema // of the last entry with rows
	adapter *schema.Adapter
}

// adopter returns what a takeover checks a log of another program with; nil if
// Options.Adopt is not set.
func (c *core) adopter(s shardIO) *adoption {
	if !c.opts.Adopt {
		return nil
	}
	return &adoption{c: c, shardIO: s}
}

// check refuses the shard or says that it may be claimed. Its newest manifest is
// cur, and no version that is kept has fields of memwal. a may be nil.
func (a *adoption) check(ctx context.Context, cur *manifest.Manifest, listed replay.Listing) error {
	if a == nil {
		return fmt.Errorf("%w: the newest manifest, version %d, has none of memwal's fields; "+
			"Open takes a shard over that Lance has begun if Options.Adopt is set", ErrForeignWriter, cur.Version)
	}
	if cur.Status != manifest.Active {
		return fmt.Errorf("%w: the program that began it closed it, so that program has to open it again", ErrSealed)
	}
	if n := len(cur.Flushed); n > 0 {
		return fmt.Errorf("%w: the manifest names %d flushed generations (the first is %q) in a format that memwal does not read: "+
			"let Lance merge them into its table before the shard is adopted", ErrForeignWriter, n, cur.Flushed[0].Path)
	}
	if err := a.checkUntouched(ctx, cur, listed); err != nil {
		return err
	}
	if err := a.c.bind(cur, a.c.opts.binding()); err != nil {
		return err
	}
	return a.certain(ctx, a.walk(ctx, cur, listed), cur)
}

// checkUntouched refuses a shard that memwal has written to, whatever became of
// its manifests: adopting it would hide what was lost with them. It refuses logs of
// other layouts, too.
func (a *adoption) checkUntouched(ctx context.Context, cur *manifest.Manifest, listed replay.Listing) error {
	for o, err := range a.store.List(ctx, a.dirs.gc) {
		if err != nil {
			return fmt.Errorf("list %s: %w", a.dirs.gc, err)
		}
		return fmt.Errorf("%w: %s shows that memwal has written to this shard", ErrForeignWriter, o.Key)
	}
	// Before version 7 Lance counted positions from 0.
	if _, err := a.store.Head(ctx, a.dirs.wal+wal.Name(0)); err == nil {
		return fmt.Errorf("%w: the log has an entry at position 0: it is one of an older Lance, whose positions memwal does not read", ErrForeignWriter)
	} else if !errors.Is(err, objstore.ErrNotExist) {
		return fmt.Errorf("look for WAL entry 0: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(footerReaders)
	for _, it := range listed {
		if it.Position > cur.RowsFloor().Position {
			break // the walk looks at these
		}
		g.Go(func() error { return a.checkNoFooter(gctx, it) })
	}
	return g.Wait()
}

// footerReaders is how many entries below the floor are looked at at a time.
const footerReaders = 16

// checkNoFooter refuses an entry below the floor that has a footer.
func (a *adoption) checkNoFooter(ctx context.Context, it replay.Item) error {
	if it.Size < wal.FooterSize {
		return nil
	}
	end, err := a.store.GetRange(ctx, a.dirs.wal+wal.Name(it.Position), it.Size-wal.FooterSize, wal.FooterSize)
	if errors.Is(err, objstore.ErrNotExist) {
		return nil // recycled meanwhile
	}
	if err != nil {
		return fmt.Errorf("read the end of WAL entry %d: %w", it.Position, err)
	}
	if _, has, err := wal.DecodeFooter(end); has || err != nil {
		return memwalEntry(it.Position)
	}
	return nil
}

func memwalEntry(position uint64) error {
	return fmt.Errorf("%w: WAL entry %d was written by memwal, but the manifest has none of memwal's fields any more", ErrForeignWriter, position)
}

// walk reads the log from the floor to its end.
func (a *adoption) walk(ctx context.Context, cur *manifest.Manifest, listed replay.Listing) error {
	w := replay.NewWalker(replay.Config{
		Store: a.store, Dir: a.dirs.wal, From: cur.RowsFloor(), Epoch: cur.Epoch,
		Listed: listed, Speculate: true, Budget: a.opts.ReplayBytes, Allocator: a.opts.Allocator,
	})
	defer w.Close()
	for {
		s, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			break
		}
		err = a.checkEntry(s)
		s.Entry.Release()
		if err != nil {
			return err
		}
	}
	// Writers without put-ids have one put in flight.
	return w.CheckHole(ctx, replay.Bounds{MaxInFlight: 1, LastSeen: cur.LastSeen})
}

// certain reads the manifest again before the log is called damaged, or somebody
// else's: if it has moved, somebody was at work while the log was read, another
// adopter perhaps.
func (a *adoption) certain(ctx context.Context, err error, cur *manifest.Manifest) error {
	fenced, isFenced := errors.AsType[*FencedError](err)
	if !isFenced && !errors.Is(err, ErrHole) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeignWriter) {
		return err
	}
	now, failed := a.log.Newest(ctx)
	switch {
	case failed != nil:
		return errors.Join(err, failed)
	case versionOf(now) != cur.Version:
		return fmt.Errorf("%w: its manifest moved while its log was read", errStartOver)
	case isFenced:
		return &CorruptError{Reason: fmt.Sprintf("an entry has epoch %d, while the newest manifest, version %d, has %d: "+
			"restore the manifest, or choose another shard", fenced.Theirs.Epoch, cur.Version, cur.Epoch)}
	}
	return stillMissing(ctx, a.store, a.dirs.wal, err)
}

// checkEntry checks an entry of the log, which stays the caller's.
func (a *adoption) checkEntry(s *replay.Step) error {
	e := s.Entry
	switch {
	case e.HasFooter || e.Header.Version != 0:
		return memwalEntry(s.Position)
	case !s.Live:
		// Lance replays whatever lies below the end of the log, and never puts such
		// an entry: the two programs would not agree on what the rows are.
		return &CorruptError{Position: s.Position, Reason: fmt.Sprintf(
			"epoch %d lies above a later epoch: its writer was fenced, and cannot have put it", e.Header.Epoch)}
	case e.Rows == 0:
		return nil
	}
	if err := a.checkColumns(e.Schema); err != nil {
		return invalid(fmt.Sprintf("schema: WAL entry %d", s.Position), err)
	}
	for _, b := range e.Batches {
		if err := a.checkRows(b); err != nil {
			return invalid(fmt.Sprintf("WAL entry %d", s.Position), err)
		}
	}
	return nil
}

// checkColumns compares the columns of an entry with those of the table. More than
// an [schema.Adapter] needs is asked for: what an open may change about a table's
// columns is for the next open. Lance matches the columns of a log by their order
// alone, so that an exchange would give it wrong values.
func (a *adoption) checkColumns(from *arrow.Schema) error {
	// The key is in metadata, by which schemas do not differ.
	if err := checkLanceKey(from, a.c.table.PrimaryKey); err != nil {
		return err
	}
	if a.adapter != nil && (a.from == from || schema.Equal(a.from, from)) {
		return nil
	}
	to, user := a.c.table.Schema, a.c.user
	adapter, err := schema.NewAdapter(from, to)
	errs := []error{err}
	last := -1
	for _, f := range from.Fields() {
		if f.Name == schema.Tombstone {
			continue
		}
		at := user.FieldIndices(f.Name)
		if len(at) == 0 {
			errs = append(errs, fmt.Errorf("column %q (%s) of the log is not in the schema: add it; it can be dropped when the shard is opened again", f.Name, f.Type))
			continue
		}
		if at[0] < last {
			errs = append(errs, fmt.Errorf("column %q stands before %q in the schema, and after it in the log: give the columns in the order of the log, %q",
				f.Name, user.Field(last).Name, userColumns(from)))
		}
		last = max(last, at[0])
		id, err := schema.FieldID(f)
		if own, _ := schema.FieldID(to.Field(at[0])); err == nil && id != 0 && id != own {
			err = fmt.Errorf("column %q has the field id %d in the log and %d in the schema: give it that of the log", f.Name, id, own)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.from, a.adapter = from, adapter
	return nil
}

// userColumns lists the user's columns of a log.
func userColumns(from *arrow.Schema) []string {
	var out []string
	for _, f := range from.Fields() {
		if f.Name != schema.Tombstone {
			out = append(out, f.Name)
		}
	}
	return out
}

// checkLanceKey compares the primary key with the one that the log records, if it
// does: with another one, different rows would be upserts.
func checkLanceKey(from *arrow.Schema, key []string) error {
	want, err := recordedKey(from)
	if err != nil || len(want) == 0 || slices.Equal(key, want) {
		return err
	}
	return fmt.Errorf("the log was written with the primary key %q, Options.PrimaryKey is %q: give that of the log", want, key)
}

// checkRows checks that every row of b is one that Put or Delete would have
// accepted.
func (a *adoption) checkRows(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		return nil
	}
	rec, err := a.adapter.Adapt(b)
	if err != nil {
		return err
	}
	defer rec.Release()
	if err := a.c.spec.Check(rec); err != nil {
		return err
	}
	columns := a.c.user.NumFields()
	if len(a.c.table.PrimaryKey) == 0 {
		return a.checkPut(rec.Columns(), rec.NumRows())
	}
	deleted := rec.Column(columns).(*array.Boolean)
	// Deletes lack the values that puts must have, so the rows between them are
	// looked at.
	for from := 0; from < deleted.Len(); {
		if deleted.Value(from) {
			from++
			continue
		}
		to := from + 1
		for to < deleted.Len() && !deleted.Value(to) {
			to++
		}
		run := rec.NewSlice(int64(from), int64(to))
		err := a.checkPut(run.Columns()[:columns], run.NumRows())
		run.Release()
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

// checkPut checks rows that are not deletes.
func (a *adoption) checkPut(columns []arrow.Array, rows int64) error {
	rec := array.NewRecordBatch(a.c.user, columns, rows)
	defer rec.Release()
	shaped, err := a.c.shaper.Shape(rec)
	if err == nil {
		shaped.Release()
	}
	return err
}

// adoptedFloor is where the rows of a shard begin that had no floor of memwal's:
// for one that is adopted, what Lance has merged into its table is left out.
func adoptedFloor(cur *manifest.Manifest) wal.Tuple {
	if cur == nil {
		return wal.Start()
	}
	return cur.RowsFloor()
}
