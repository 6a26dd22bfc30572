// Package wal is the format of the write-ahead log: the names of its objects,
// the codec of one entry, and the rule that says which entries belong to the log.
//
// # Entries
//
// An entry is one object. It holds whole record batches of one memtable as an
// Arrow IPC stream, optionally a side section (annotations and journal records),
// and a footer with checksums. The stream comes first and ends with Arrow's own
// end marker, so any Arrow reader can read the rows and never sees the rest.
// There is one encoder ([Encode], and [EncodeFence] for entries without rows)
// and one decoder ([Decode]; [DecodeHeader] and [DecodeFooter] read the parts
// that suffice for liveness and for recycling).
//
// # Ownership
//
// Encoding does not copy column data: the body refers to the buffers of the
// batches, which [Encoded] retains until [Encoded.Release]. Decoding does not
// copy either: batches refer to the slice that was decoded, which must not be
// changed while any of them is in use; compressed bodies are expanded into the
// allocator of [DecodeOptions], and [Entry.Release] gives that memory back.
//
// # Hostile input
//
// No input makes a decoder panic, loop, or allocate more than its bounds: the
// checksum is checked before anything is parsed, lengths are checked before
// anything is allocated, and entries of other programs, which carry no checksum,
// are validated value by value. Everything that is wrong with an entry is
// reported as a [CorruptError].
//
// # Liveness
//
// An object that a fenced writer left behind may land late, at any position.
// [Chain] decides, position by position, which entries are live; it is a pure
// state machine and is used by replay, by tailers and by recycling alike.
//
// # Concurrency
//
// Functions are safe for concurrent use. Values are not, except that decoded
// entries may be read from several goroutines.
package wal
