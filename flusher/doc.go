// Package flusher makes the rows of memtables durable: it appends them to the
// write-ahead log, in order, and advances the durable cursor.
//
// One [WAL] serves one writer of one shard. Its state machine runs in a single
// dispatcher task; nothing but the puts themselves, and the ownership check,
// happens outside of it.
//
// # What is appended
//
// A tick, a wake-up and a completed put all end in the same step: acknowledge
// what can be acknowledged, then ask the policy (decide) whether to start
// an append now. A tick names no memtable. The rows are looked for when the
// step runs: the oldest live memtable that has rows beyond the assigned prefix
// is taken, whole batches of it up to the size limit, and never batches of two
// memtables in one entry. A tick that was due before a freeze and is handled
// after it therefore appends the frozen rows first.
//
// # Cost
//
// Two bounds, both for what the store bills. The interval is the least spacing of
// appends started by time; size and demand do not heed it. A [Ceiling] bounds
// every PUT of the writer over any minute: an append waits for it whatever
// started it, while rows pile up and the next entry gets larger. What does not wait
// is charged, and later appends pay. While nothing is pending there is nothing
// to wait for, so no tick is asked for either.
//
// # Pipelining and acknowledgement
//
// Up to MaxInFlight puts are in flight, at positions within a Span of the oldest
// unacknowledged one; what landed behind that is not in flight any more. The durable
// cursor follows the contiguous prefix of landed positions only: a row is
// acknowledged when every position before its own has landed too.
//
// A position may turn out to be taken by an object that a fenced predecessor
// left behind (a dead object). The window then lets its other puts resolve and
// puts everything from that position on again, above, with new put-ids. An
// object of a higher epoch means that this writer is fenced.
//
// # When a landed put is not enough
//
// A put lands because its position was empty, which proves that no successor
// has put its fence there, unless that fence was recycled since. Fences are
// kept long, so the proof holds as long as the previous one is recent: if more
// than OwnershipCheckAfter has passed since that was sent, the manifest is read
// again before anything is acknowledged.
//
// # Failure
//
// A put whose retries are exhausted, a fence, or a lost position is terminal:
// the failure is reported once through Config.OnFail and nothing is appended or
// acknowledged after it.
package flusher
