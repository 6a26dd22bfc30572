// Package schema owns everything about the shape of a shard's rows.
//
// It answers four questions, each in its own file:
//
//   - What is stored? [Storage] derives the storage schema of a table from the
//     schema that the user gave, its primary key, and what the manifest knows
//     already. Columns get field ids, which name them for ever; tables with a
//     primary key get the column [Tombstone].
//   - May this batch in? A [Shaper] validates a user's batch and shapes it to
//     the storage schema without copying a column. It makes the batches that
//     stand for deletes, too.
//   - What does an older batch look like today? An [Adapter] turns batches that
//     were written under another storage schema into ones of the current schema.
//   - What does a batch cost? [Size] gives the bytes that its rows span and the
//     bytes that it keeps alive; [Compact] copies the rows out when the second is
//     far larger than the first ([NeedsCompact]).
//
// # Identity of columns
//
// A column's identity is its field id, a decimal in the field metadata under
// [FieldIDKey]. Ids start at 1 and are never reused, also not after the column
// was dropped: a column that was dropped and added again under the same name is
// a new column, and old rows read as null in it. Where a schema carries no id
// (a log of another program), columns are matched by name; in a table that memwal has
// taken over ([Adopt]), by the name that they had then.
//
// # Equality of types
//
// Two types are the same when batches of one can be read as batches of the other
// without looking at a value. Metadata of fields and the names of list, map and
// run-end children are ignored; names of struct and union children, the
// nullability of children, units, time zones, widths and dictionary orderedness
// count. Extension types are compared by their own ExtensionEquals. An extension
// type that was not registered when a schema was read appears as its storage type
// with ARROW:extension:name in the field's metadata; such a field is the same as
// a field of the extension type with that name, serialized metadata and storage.
//
// # Concurrency and ownership
//
// All types are safe for concurrent use once constructed. Functions never keep a
// batch that they are given, and never write to it. A batch that they return is
// the caller's: Release it once. It shares the buffers of the batch it was made
// from, except for Compact, which shares none.
//
// Batches that leave Shape, Adapt, Tombstones and Compact are settled: null counts
// are known and dictionaries are materialized, so that goroutines may share them.
// arrow-go computes both lazily, without synchronization.
package schema
