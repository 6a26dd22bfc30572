// Package soak runs writers, readers, seals, stalls, kills and faults of the
// store against shards for as long as it is told, and checks everything that can
// be known.
//
// # Rounds
//
// Rows of a shard stay in its writer's memory, so a soak of hours goes through
// many shards. A round is one shard: it is used for some seconds, read whole by
// two opens and a reader, and deleted. Its options are drawn from the seed, and
// every other round has no primary key: there a row that is stored twice shows
// twice. What is left of a round are counts.
//
// # Participants
//
// A writer process has a way to the store of its own, a
// [faultstore.Store]. It opens the shard, which takes it from whoever has it,
// puts, deletes, rotates, flushes, reads back, and ends: by Close, by a kill
// (during Open, between calls, or with puts on the wire that land later), by a
// stall longer than OwnershipCheckAfter, because it was fenced, or it is dropped
// for the garbage collector. Then it comes back. One more process seals and
// unseals. Readers open, refresh, follow, and close.
//
// # What is checked
//
// Rows are computed from the seed, the incarnation (one Open) that puts
// them, and their sequence there. An incarnation begins at the bound that its
// Open found, and its rows follow each other; so the bases of all incarnations,
// by epoch, say which row must stand at every ordinal, and the ledger has three
// counts for each incarnation instead of its rows.
//
//   - What was acknowledged, or shown by any snapshot, is found by every later
//     open, at its ordinal, in order, once.
//   - What is found was issued.
//   - Nothing is acknowledged after a failure of the writer, beyond a later
//     writer's base, or of what was put after SealShard had returned.
//   - Each snapshot is the newest version of each key of exactly that prefix, by
//     scan, range, search, lookup and count, and is the same when it is asked again.
//   - A reader shows what was acknowledged before its refresh began.
//   - An error is one that something of the round explains: ErrFenced needs a
//     rival claim, ErrSealed a seal, a timeout a stall or an injected fault.
//
// All time is real: a seed fixes the plan of a run, not how its requests
// interleave. The simulation of memwal's tests does that.
package soak
