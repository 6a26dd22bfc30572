// Package filter has predicates over rows: built without a schema, bound to one,
// evaluated over stretches of Arrow record batches.
//
// # Lifecycle
//
// An [Expr] is built by constructors. [Bind] checks it against a schema, reports
// everything that does not fit, and gives a [Program]. [Program.NewEvaluator] gives
// what evaluates it: an [Evaluator] has scratch of its own and is for one goroutine.
//
// # Logic
//
// As in SQL, a predicate is true, false or unknown, and a row matches if it is true.
// A comparison with a null, of the row or of the filter, is unknown; so is its
// negation. "and" is false if one side is false, else unknown if one is unknown;
// "or" is true if one side is true, else unknown if one is unknown. In particular
//
//   - x in (1, null) is true for 1 and unknown for all else, so its negation
//     matches nothing;
//   - x in () is false and its negation true, for nulls too;
//   - x between a and b is x >= a and x <= b;
//   - x is null is never unknown.
//
// A Program holds no "not": [Bind] moves negations down to the comparisons, where
// each is a comparison of its own (De Morgan's laws hold in this logic). What is left
// can only make more rows match where more parts are true, so unknown and false
// need not be told apart, and one bit a row is enough.
//
// # Order and values
//
// Values compare as package keys orders them, so that a filter, an index and a
// primary key agree: -0.0 equals 0.0; all NaN are equal to each other and greater
// than +Inf, so "x = NaN" finds them and "x > 1" has them; text goes by its bytes;
// a dictionary's values and an extension's storage count. Values must be exactly of
// the column's type (keys.Codec.AppendValues has the table): 300 is no value of an
// int8 column, 0.5 none of an int64 one, and a time with nanoseconds none of a
// timestamp in seconds. Nothing is rounded.
//
// # Ownership and concurrency
//
// Expr and Program are immutable and safe for concurrent use. An Evaluator retains no
// batch.
package filter
