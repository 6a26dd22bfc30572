// Package dispatcher runs one background task as a loop over messages, wakes
// and ticks.
//
// A [Task] owns one goroutine. Everything that the task does happens on it, one
// handler call at a time, so a handler needs no lock for state that only it
// touches.
//
// # What comes first
//
// Cancellation comes before messages, messages before ticks:
//
//   - A stop or the end of the context given to [Start] is seen before the next
//     handler call, however full the mailbox is.
//   - Messages are handled in the order in which they entered the mailbox. A wake
//     takes its turn among them: it is delivered after the messages that were
//     posted before it. Any number of wakes before that is one.
//   - A tick is delivered when nothing else waits.
//
// A periodic tick that falls due while a handler runs is dropped and the next
// one comes a full interval later, so ticks never come in a burst. Two are
// never dropped in a row, or a task that is busy all the time would never tick:
// the second one waits its turn. A tick asked for with [Task.ResetTicker] is a
// deadline of the handler and is never dropped. A tick that waits its turn lets
// at most one mailbox of messages pass and then goes first.
//
// # Errors and panics
//
// A handler's error is reported through Options.OnError, and the loop goes on.
// A panic is contained: the loop ends, the mailbox closes, [PanicError] is
// recorded, then Options.OnPanic is called. Nobody is left hanging: posters get
// [ErrStopped], and each message that will not be handled goes through
// Options.OnDiscard, where a reply that it promised can be given.
//
// # Lifecycle
//
// [Start] starts the goroutine. [Task.Stop] ends it, joins it and returns what
// it reported; the end of the context given to Start ends it like a stop that
// discards. Stopping twice is harmless.
package dispatcher
