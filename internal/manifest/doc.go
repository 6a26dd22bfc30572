// Package manifest is a shard's control file: who may write, what has been
// flushed, and how far each plane has absorbed the log.
//
// # Versions
//
// Every version is one immutable object, created by put-if-absent. Version v+1
// is built from v, so that whoever creates it has seen everything before it.
// Each carries a random commit id: an attempt that is told that the object
// exists reads it and compares, and so tells its own, whose reply was lost, from
// somebody else's.
//
// The newest version is the maximum of a complete List, then probed upward. The
// hint object is written best effort and only ever read by readers that can live
// with an older version. A request that failed is an error, never "absent".
//
// Old versions are recycled. What remains is a contiguous suffix; a version
// below it is garbage, left by a commit that came too late. Since a number that
// was recycled can be created again, a commit counts only if its reply is
// processed soon after the List that it was built on, or if a new List shows it
// in its place (see [Options.OwnershipCheckAfter]).
//
// # Ownership
//
// A claim raises the epoch. "Ours" means the epoch and the commit id of the
// version that claimed it: see [Owner]. Whoever lost it gets a [FencedError]
// from every update and check.
//
// # Format
//
// The object is one protobuf message: the public Lance specification's fields
// under their numbers, memwal's from 100 up, and at the end the length and the
// CRC-32C of the rest. Fields that this program does not know survive a rewrite,
// at every level. A manifest without any field of memwal is a legacy one; it
// reads as having no floors.
//
// # Concurrency
//
// A [Log] is safe for concurrent use. Manifests that it returns are shared and
// must not be changed; change a Clone.
package manifest
