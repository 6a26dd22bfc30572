// Package index holds the indexes of one memtable: the primary key, ordered indexes
// and full text. It knows rows by slot, the number of a row within its memtable from 0,
// and finds them through Rows; it knows nothing of files or object stores.
//
// # One rule
//
// Every index is append-only and holds all versions of all rows. A row that
// supersedes another one (an upsert, or a delete, which is a row of its own with
// the column "_tombstone" set) leaves its slot with the older row:
//
//	live(slot, bound) = slot < bound && superseded[slot] ≥ bound
//
// Searches take a bound, a number of slots at most Applied, and apply this test to
// every row they meet, never to their result. So one structure serves every bound,
// taking a snapshot costs nothing, and what a search gives for a bound never
// changes, however much is written after it.
//
// # Lifecycle
//
// Bind checks a configuration against the storage schema and gives a Spec, once
// per shard. NewSet gives the empty Set of a memtable. A batch passes Spec.Check
// before it is stored, and then Set.Apply, in slot order. Nothing is closed: a Set
// is freed with the last reference to it.
//
// # Concurrency
//
// One goroutine at a time calls Apply and Fail. Everything else is safe beside it
// and beside itself. Lookup and Live take no lock. Range works on an immutable
// copy of the tree, which it asks for under a lock, held for a few hundred inserts
// at most, only when the last copy is older than its bound; while ranges are read
// steadily, the writer makes the copies.
//
// Apply gives small batches to one index after another, and large ones to all at
// once. Applied moves after the last of them.
//
// ApplyRun takes many batches at once, as a replay has them. It sorts long runs
// before they go into an ordered index, which makes it three times as fast with
// random keys (BenchmarkApplyRun).
//
// # Full text
//
// A Text index keeps, for each term of its column, the slots that have it, how often
// and where, and the number of terms of each slot. Terms are made by bleve's analyzers;
// bleve's queries and its collector run on top, through a reader that shows the live
// rows of several memtables as one index (Spec.SearchText). A document is a live row,
// also one whose text is null or empty. Scores are BM25 with the statistics of the live
// rows: their number, the number of terms in them, and in how many of them a term
// occurs. So hits and scores are those of an index of just the live rows, whatever was
// superseded and however the rows lie in memtables.
//
// The last of these is counted by each search, over all postings of its terms. The
// others come from sums over slots, in which a row takes away what it superseded or what
// newer memtables hide; a search begins with the sum that the one before it has left.
//
// What a search leaves out (TextSearch.Accept) is left out inside it, so that it takes
// no place among the best; scores do not change by it. Queries are looked through before
// bleve runs them, and bounded. A Highlighter runs a query on the terms of one row, with
// their places in its text, and marks what it finds.
//
// # Several memtables
//
// A row is also superseded by one of a newer memtable with the same key. Set.Shadow
// looks that up, from the newer rows to the older ones, each newer row once for all
// readers, and keeps it with the ordinal of the row that hides, so that it answers at
// every bound. The first read that needs it pays for the rows that came since the last.
//
// # Freezing
//
// Set.Freeze writes an Ordered or Text index as one object, with the rows that are live
// at the whole bound of the memtable and the file row of each. Spec.OpenFrozen opens it
// in microseconds, from memory or by ranges, for a FrozenSource such as an object of a
// store. Slots stay what they were. A frozen text index is a Part of a search in the place
// of its Set, older than all Sets; Frozen.RangeKeys gives what Set.RangeKeys gave. What
// newer rows hide of it the caller tells (FrozenPart). docs/format.md has the format.
//
// Every byte has a checksum, which is checked when it is read: damage is an error of the
// read that meets it, ErrCorrupt, and so is a read that fails, never a missing row.
// Frozen.Verify reads all. A Frozen needs no closing.
//
// # Ownership
//
// Batches are lent: an index retains none, but reads them through Rows for as long
// as the Set is searched. Keys are not stored, but compared in the Arrow columns.
// A Spec copies its configuration.
//
// # Keys and their values
//
// Key columns need a type with a total order: bool, integers, floats, decimals,
// dates, times, timestamps, durations, month intervals, text, binary, fixed-size
// binary, dictionaries of and extensions over these. -0.0 equals 0.0, and all NaN
// are one value above +Inf. Nulls are refused in primary keys; in ordered indexes
// they come first (see Range). A key has at most 64 KiB, encoded.
//
// Go values stand for a key only if they are exactly values of the columns:
//
//	bool                 bool
//	integers             any Go integer in range (named types too)
//	floats               float32, float64 and integers that the type represents exactly; NaN
//	text, binary         string, []byte
//	fixed-size binary    []byte, string or a byte array (uuid.UUID) of the exact size
//	timestamp            time.Time without a finer part than the unit; arrow.Timestamp in the column's unit
//	date                 time.Time at midnight of its own location; arrow.Date32, arrow.Date64
//	time of day          time.Duration since midnight; arrow.Time32, arrow.Time64 in the column's unit
//	duration             time.Duration; arrow.Duration in the column's unit
//	month interval       arrow.MonthInterval
//	decimals             the Num types of arrow/decimal* (unscaled); integers and decimal text such as "12.50"
//
// # Cost
//
// The primary key takes about 21 bytes a key, an ordered index 25 to 35 bytes a
// row. An ordered index remembers what all its keys begin with, so that common
// prefixes cost nothing; keys that share long parts otherwise are compared in the
// rows. BenchmarkPrimaryKeyApply, BenchmarkOrderedApply, BenchmarkLookup and
// BenchmarkRange measure both.
//
// A Text index over texts of 20 words takes some 84 bytes a row, and 59 without
// positions, where each word comes again and again; a new word takes some 70 bytes
// (BenchmarkTextApply). A query that lists terms (prefix, fuzzy, wildcard, range) sorts
// those that are new since the last one of its kind.
//
// Freezing writes some 500,000 texts a second, into 55 bytes a text, 35 without positions
// (BenchmarkFreezeText); BenchmarkSearchFrozen compares searches before and after.
//
// # Errors
//
// Bind and Check return errors of the category ErrInvalid, searches ErrNoIndex,
// ErrFailed or ErrInvalid. What goes wrong in Apply, a panic included, is an
// *ApplyError of the category ErrInternal.
package index
