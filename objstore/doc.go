// Package objstore is the seam between memwal and object stores.
//
// A [Store] reads, lists and deletes objects and, above all, creates them:
// [Writer.PutIfAbsent] is the only primitive that the correctness of a log
// rests on. Exactly one of any number of puts at one key succeeds, in one
// process or in many; everyone else gets [ErrExists] and reads the object to
// see whether it is their own (an earlier attempt whose reply was lost).
//
// # Adapters
//
//   - [NewMemory]: a map; for tests and for data that may vanish.
//   - [NewFolder]: a local folder, durable when a put returns.
//   - [NewS3]: Amazon S3 and what speaks its protocol (MinIO, Ceph, R2, …).
//   - [NewBucket]: any bucket of gocloud.dev/blob.
//   - [Open]: one of these, from a URL.
//
// [Prefix], [WithRetry] and [WithCounters] wrap any of them. The packages
// objstore/gcs and objstore/azure add the URL schemes gs:// and azblob://; they
// are apart so that programs that do not need them do not link those clouds.
//
// # Keys
//
// Keys are relative slash-separated paths of valid UTF-8, of at most
// [MaxKeyLen] bytes, in which no element is empty, "." or ".."; control
// characters and backslashes are refused. Anything else is [ErrInvalid] in
// every adapter, so that a log can be moved from one store to another, and no
// key can point out of its folder. A store may treat "a" and "a/b" as exclusive
// (folders do), or "a" and "A" (some file systems do): avoid such pairs.
//
// # Errors
//
// Adapters translate what their store says into the classes of this package,
// for use with errors.Is; [Error] has the operation, the key and the cause.
// Adapters never retry by themselves; [WithRetry] does, with a bound.
//
// # Concurrency and ownership
//
// A Store may be used by several goroutines at once. A [Body] passed to a put
// is only read, and only until the put returns. A slice returned by a get
// belongs to the caller. Close releases what the store holds (connections); the
// caller makes sure that no call is running or follows.
package objstore
