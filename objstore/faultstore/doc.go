// Package faultstore wraps a store so that it fails, stalls and dawdles as
// told: for tests of whatever is built on objstore, and for measurements under the
// latency of a real service. It does not import testing.
//
// # Rules
//
// A [Rule] says which requests it is for (kind, key, the nth match, chance) and
// what happens to them. Every request goes through these steps; a request takes
// each step from the first rule that matches and has it, except that OnRequest
// and OnApplied of all matching rules are called, in order:
//
//	OnRequest → Late (the caller has its reply) → latency and Delay → Park → Hold
//	          → Before (fail)
//	          → the inner store, twice with Duplicate, replacing with IgnoreCondition
//	          → OnApplied → ParkReply → After (fail) → Truncate → reply
//
// A listing goes through Drop, Truncate and Shuffle, in this order, on its way
// from the inner store, before its OnApplied.
//
// Rules can be written as text, for command lines and reports of bugs: see
// [ParseScript] and [Rule.String]. [Chaos] has rules for everything that a store
// may do and still keep its contract. [Store.Injected] tells what has really
// happened: look at it, since a rule that matches nothing says nothing.
//
// A shard of memwal keeps its log below _mem_wal/<uuid>/wal/: _mem_wal/*/wal/* is
// the pattern of its entries (the first put of each open is a fence), and
// _mem_wal/*/manifest/* that of its claims. memwal repeats what fails by itself;
// give other programs this store in objstore.WithRetry, as the example does.
//
// # Requests that outlive their callers
//
// With Late, the caller gets ErrAmbiguous at once and the request is sent later.
// With Detach, it is so when the caller's context ends while the request is on its
// way. Either is what the request of a process looks like that died after it had
// sent it. [Store.Wait] waits for them; [Store.Close] does so too.
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
// What is random about a request (chance, latency, the order and the holes of a
// listing) is a function of the seed, the rules, its kind, its key and how many of that
// kind and key came before. It does not depend on how requests of different keys
// interleave, and what happens to an object of a listing not on the others.
// The choice of ReleaseOne depends on the order of the calls alone. Skip and
// Count of a rule, though, count its matches in the order in which they arrive,
// whatever their keys: give such a rule one key where many goroutines ask.
//
// # Memory
//
// Runs may be long: the log of requests has a bound ([Store.SetLogSize]), and
// how many requests of a kind and key came before is remembered of the last
// 65,536 kinds and keys at least; one that was not asked for since begins anew.
//
// # Concurrency
//
// All methods may be called from several goroutines at once. Hooks run on the
// goroutine of the request, without a lock; they may use the store. A Match
// function runs under the store's lock, and may not.
package faultstore
