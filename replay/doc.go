// Package replay reads the write-ahead log of a shard from a floor upward.
//
// A [Walker] visits positions one by one, up to the first empty one, and tells
// live entries from dead ones. It fetches ahead, within a bound of bytes. A
// [Loader] puts live entries into memtables, in order, one entry never in two
// memtables, and rebuilds the indexes on the way.
//
// # Who decides what
//
// Liveness is decided by the chain of put-ids alone (package wal). Whether an
// entry was absorbed by a generation is decided by its position alone: the walk
// starts above the floor, and everything live that it meets is loaded. The
// generation that an entry records does nothing but force a rotation.
//
// # The first empty position
//
// The walk stops at the first position without an object. That it really is the
// end of the log, and not a hole that somebody's deletion left, is for
// [Walker.CheckHole] to say, from a listing that was made before the walk:
// whatever it shows above the empty position was put before that position was
// found empty.
//
// # Errors
//
// Nothing is guessed and nothing is skipped silently: a damaged object, an entry
// out of sequence and a hole are errors that name the position.
package replay
