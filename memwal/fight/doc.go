// Package fight holds tests in which real processes fight for one shard: they
// are killed, stopped and continued at random moments, and what they say about it
// is compared with the log that is left. It has no code of its own.
//
// The test binary runs itself as the child. A child tells its parent through a pipe
// what it is about to do before it does it, and what came of it afterwards. What
// is in a pipe outlives its writer, so after a SIGKILL the parent knows every row
// that may be in the log, and lacks at most the news of some that were acknowledged.
//
// Each report carries a moment: a number from a counter in memory that all
// processes share. Two moments are in the order in which they were taken, whichever
// process took them, and no clock has a part in it. That is what "after being
// fenced" is judged by.
//
// The log is read here by the rules of docs/protocol.md alone, not with the
// code under test.
//
//	go test ./memwal/fight                                      # a minute for each store
//	go test ./memwal/fight -v -fight.time 10m -fight.seed 7     # longer; which decisions are drawn
package fight
