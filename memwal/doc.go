// Package memwal takes Apache Arrow record batches into an indexed table in
// memory and makes them durable in a write-ahead log that lives in an object
// store. Readers see only rows that are both indexed and durable.
//
// # Lifecycle
//
// [Open] makes the caller the one writer of a shard, and brings back what its
// log holds. [Writer.Put] adds or replaces rows, [Writer.Delete] removes them,
// [Writer.Snapshot] reads, [Writer.Close] ends. The object store comes from
// package objstore and belongs to the caller.
//
// # What a Put promises
//
// When Put returns nil, the rows are durable in the object store (unless the
// writer was opened with [VisibleIndexed]), they are in every index, every
// snapshot taken from then on shows them, and every later Open finds them: after
// a crash, after another process took the shard over, in the same order, once.
//
// When Put returns an error that matches [ErrInvalid] or [ErrBackpressure],
// nothing was stored. After any other error of a batch that was accepted (the
// context ended, the writer failed), it is not known whether the rows will be
// found later. They will not be found twice.
//
// # One writer
//
// Each Open takes the shard over with a higher epoch and puts a fence into the
// log. The writer before it finds the fence with its next append, and then
// returns [ErrFenced] for ever. Nothing has to be configured for that, and no
// lease runs out.
//
// # Readers in other processes
//
// [OpenReader] shows the durable rows of a shard that another process writes, or
// that LanceDB wrote. [Reader.Refresh] takes in what is new, [Reader.Follow] waits
// for it, [Reader.Snapshot] answers like a writer's. A reader disturbs no writer.
//
// # Failure
//
// A terminal failure (fenced, a put whose retries were exhausted, an index that
// failed) poisons the writer: everything that waits is woken, and every call
// returns that first failure, wrapped in a [PoisonedError]. Snapshots that are
// open keep answering. Opening the shard again is the way on.
//
// # Watching a writer
//
// [Writer.Stats] has the figures. [Options].MeterProvider and TracerProvider take
// providers of OpenTelemetry: the same figures as instruments, and spans of opens,
// flushes and appends. Options.Logger gets what an operator must see. The names
// are in docs/operations.md; module examples/metrics has a scrape endpoint.
//
// # Ownership
//
// A batch given to Put may be released as soon as Put returns; its buffers must
// not be changed. What snapshots hand out is lent: record readers by the rules of
// array.RecordReader, rows that were looked up until the snapshot is closed.
//
// # Concurrency
//
// Writers, readers and snapshots are safe for concurrent use; the record readers
// that a scan or a range returns are for one goroutine each. Scans and lookups take
// no lock; a range takes the one of its index for a moment. None waits for a put.
package memwal
