package index

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/internal/keys"
)

// Spec is a configuration bound to a storage schema, shared by all memtables of
// a shard. Immutable, safe for concurrent use.
type Spec struct {
	schema    *arrow.Schema
	tombstone int // position of the tombstone column, or -1
	key       *keys.Codec
	keyCols   []int
	kinds     []bound
	byName    map[string]int // into kinds

	// Keys are hashed with seeds of this process: no input that is prepared in
	// advance can make them collide, and no hash is ever stored.
	seed     maphash.Seed
	wordSeed uint64
	weaken   func(uint64) uint64 // tests force collisions with it; nil: none
}

// Schema is the storage schema that the Spec was bound to.
func (s *Spec) Schema() *arrow.Schema { return s.schema }

// HasPrimaryKey is false for append-only tables.
func (s *Spec) HasPrimaryKey() bool { return s.key != nil }

// Configs are the configurations of the secondary indexes, in the order given.
func (s *Spec) Configs() []Config {
	out := make([]Config, len(s.kinds))
	for i, k := range s.kinds {
		out[i] = k.config()
	}
	return out
}

// OrderedOver is the name of an ordered index whose first column is the one
// named; the first that was configured, if several are. Without one: *NoIndexError.
func (s *Spec) OrderedOver(column string) (string, error) {
	for _, k := range s.kinds {
		if o, ok := k.(*orderedSpec); ok && s.schema.Field(o.cols[0]).Name == column {
			return o.cfg.Name, nil
		}
	}
	return "", &NoIndexError{Column: column, Kind: KindOrdered}
}

// batchColumns is a batch on its way through Check.
type batchColumns struct {
	rec arrow.RecordBatch
	// same tells that the batch has the very schema of the Spec, so that columns
	// need not be looked at one by one.
	same bool
}

// Check reports everything that an index could not take: a missing column, a
// null in the primary key, a key that is too long. Apply relies on it.
func (s *Spec) Check(rec arrow.RecordBatch) error {
	b := batchColumns{rec: rec, same: rec.Schema() == s.schema}
	if err := s.checkTombstones(b); err != nil {
		return err
	}
	if s.key != nil {
		if err := s.hasColumns(b, PrimaryKey, s.keyCols); err != nil {
			return err
		}
		if err := s.key.Check(rec); err != nil {
			return &BatchError{Index: PrimaryKey, Err: err}
		}
	}
	for _, k := range s.kinds {
		name := k.config().IndexName()
		if err := s.hasColumns(b, name, k.columns()); err != nil {
			return err
		}
		if err := k.check(b); err != nil {
			return &BatchError{Index: name, Err: err}
		}
	}
	return nil
}

func (s *Spec) checkTombstones(b batchColumns) error {
	if s.tombstone < 0 {
		return nil
	}
	if err := s.hasColumns(b, PrimaryKey, []int{s.tombstone}); err != nil {
		return err
	}
	if n := b.rec.Column(s.tombstone).NullN(); n > 0 {
		return &BatchError{Index: PrimaryKey, Column: s.schema.Field(s.tombstone).Name, Err: fmt.Errorf(
			"%d of %d rows are null, expected true or false", n, b.rec.NumRows())}
	}
	return nil
}

// hasColumns checks that the batch has the columns where the Spec expects them.
// Indexing a batch without one would index nothing, silently.
func (s *Spec) hasColumns(b batchColumns, index string, cols []int) error {
	if b.same {
		return nil
	}
	for _, i := range cols {
		want := s.schema.Field(i)
		if i >= int(b.rec.NumCols()) {
			return &BatchError{Index: index, Column: want.Name, Err: fmt.Errorf(
				"the batch has %d columns, expected this one of type %s at position %d", b.rec.NumCols(), want.Type, i)}
		}
		if name := b.rec.ColumnName(i); name != want.Name {
			return &BatchError{Index: index, Column: want.Name, Err: fmt.Errorf(
				"the batch has column %q at position %d, expected this one of type %s", name, i, want.Type)}
		}
		if t := b.rec.Column(i).DataType(); t != want.Type && !arrow.TypeEqual(t, want.Type) {
			return &BatchError{Index: index, Column: want.Name, Err: fmt.Errorf(
				"the batch has it with type %s, expected %s", t, want.Type)}
		}
	}
	return nil
}

// Key is a primary key with its hash, ready for any number of lookups in the
// Sets of the Spec that made it. The zero Key is in no Set.
type Key struct {
	hash  uint64
	word  uint64 // the key, in codecs whose keys fit a word
	bytes []byte // the encoded key
}

// Bytes is the key's order-preserving encoding; the caller must not change it.
func (k Key) Bytes() []byte { return k.bytes }

// Key makes a primary key from Go values, one a key column in the order of the
// primary key. Values must be exactly of the columns' types, or it is a
// *ValueError; the package comment has the table.
func (s *Spec) Key(vals ...any) (Key, error) {
	if s.key == nil {
		return Key{}, &NoIndexError{Index: PrimaryKey, Kind: "primary key"}
	}
	enc, err := s.key.AppendValues(nil, vals)
	if err != nil {
		return Key{}, err
	}
	return s.keyOf(enc), nil
}

// RowKey makes a primary key from a row of a batch of the storage schema. The
// Key holds a copy. The row must have passed Check.
func (s *Spec) RowKey(rec arrow.RecordBatch, row int) Key {
	if s.key == nil {
		return Key{}
	}
	return s.keyOf(s.key.AppendRow(nil, rec, row))
}

// AppendKey appends the encoded primary key of a row to dst: RowKey's Bytes
// without a Key.
func (s *Spec) AppendKey(dst []byte, rec arrow.RecordBatch, row int) []byte {
	if s.key == nil {
		return dst
	}
	return s.key.AppendRow(dst, rec, row)
}

// CompareRows compares the primary keys of two rows.
func (s *Spec) CompareRows(a arrow.RecordBatch, i int, b arrow.RecordBatch, j int) int {
	if s.key == nil {
		return 0
	}
	return s.key.Compare(a, i, b, j)
}

// keyOf makes the Key of an encoded key, which it keeps.
func (s *Spec) keyOf(enc []byte) Key {
	k := Key{bytes: enc}
	if s.key.Fixed() {
		k.word = s.key.Head(enc).Word
		k.hash = s.hashWord(k.word)
	} else {
		k.hash = s.hashBytes(enc)
	}
	return k
}

// hashWord mixes a key of at most eight bytes with the finalizer of MurmurHash3:
// a bijection, so that different keys never have the same 64 bits, and strong
// enough on sequential keys.
func (s *Spec) hashWord(w uint64) uint64 {
	h := w ^ s.wordSeed
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	if s.weaken != nil {
		return s.weaken(h)
	}
	return h
}

func (s *Spec) hashBytes(b []byte) uint64 {
	h := maphash.Bytes(s.seed, b)
	if s.weaken != nil {
		return s.weaken(h)
	}
	return h
}

// KeyColumns are the positions of the primary key's columns in the schema.
func (s *Spec) KeyColumns() []int { return slices.Clone(s.keyCols) }
