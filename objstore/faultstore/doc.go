// Package faultstore wraps a store so that it fails, stalls and dawdles as
// told: for tests of what is built on objstore, and for measurements under the
// latency of a real service. It does not import testing.
//
// # Rules
//
// A [Rule] says which requests it is for (kind, key, the nth match, chance) and
// what happens to them. Every request goes through these steps; a request takes
// each step from the first rule that matches and has it, except that OnRequest
// and OnApplied of all matching rules are called, in order:
//
//	OnRequest → latency and Delay → Park → Hold → Before (fail)
//	          → the inner store, twice with Duplicate
//	          → OnApplied → ParkReply → After (fail) → Truncate → reply
//
// A rule with Detach makes its request outlive its caller: when the caller's
// context ends while the request is on its way, the caller gets ErrAmbiguous
// and the request goes on, to be applied late, like that of a process that died
// after it had sent it.
//
// # Scheduling
//
// Parked requests wait until somebody applies them by [Store.Release] or
// [Store.ReleaseOne], which picks one by the seed. Together with
// testing/synctest this explores orders: wait until everything is blocked,
// release one, repeat.
//
// # Determinism
//
// What is random about a request (chance, latency) is a function of the seed,
// its kind, its key and how many of that kind and key came before. It does not
// depend on how requests of different keys interleave. The choice of ReleaseOne
// depends on the order of the calls alone.
//
// # Concurrency
//
// All methods may be called from several goroutines at once. Hooks run on the
// goroutine of the request, without a lock; they may use the store.
package faultstore
