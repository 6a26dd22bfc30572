// Package simulation holds a deterministic simulation of memwal. It has no code
// but its tests.
//
// Up to three writer processes, up to two readers and a recycler share one
// shard. All run the real library, in the simulated time of testing/synctest,
// over one store in memory. Every request is held before it is applied and again
// before its reply; a scheduler lets one go at a time, in an order that it draws
// from the seed. In between, processes open the shard, put, delete, rotate, flush,
// read, move the floor, stall for hours, crash and leave puts on the wire, close,
// seal and unseal, and requests meet the faults of objstore/faultstore.
//
// An oracle reads the same store past all faults. It has rules of its own for
// what belongs to the log, and holds against it whatever was acknowledged, shown
// or opened:
//
//   - what the log held once it holds for ever: rows are only added at its end
//   - acknowledged rows are in it, at the ordinal that was told
//   - every row in it was put, once, and those of one writer in their order
//   - a snapshot shows a prefix of it, from the floor that its opener found; of each key
//     the newest row
//   - an open returns with all of it that was acknowledged before; so does a refresh
//   - no error is returned that nothing in the run explains
//   - the same seed gives the same trace
//
// Recycling is not a part of the library yet. The recycler here does what it will do,
// so that everything else is tried against emptied positions from the start. It
// deletes below the floor only, after it has put a boundary marker: live entries at
// once; fences that are older than FenceRetention; dead entries when they and the
// first fence above them are; manifests that are as old, oldest first, never the newest.
//
//	go test ./memwal/simulation                           # some thousand seeds
//	go test ./memwal/simulation -seeds 100000             # more
//	go test ./memwal/simulation -run TestSimulation -seed 4711 -seeds 1 -v    # one, with its trace
//	go test -tags faults ./memwal/simulation -run Switch  # how soon each fault is found
//
// A seed that fails prints its trace, the log that it has come to, what is wrong, and
// the command that replays it. Read it from its end.
package simulation
