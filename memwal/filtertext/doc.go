// Package filtertext reads filters as people write them, for command lines, query
// parameters and configuration:
//
//	status in ["open", "held"] and amount >= 10.50 and not isNull(paid_at)
//
// [Parse] gives a memwal.Filter, which Scan, Range, CountWhere and the others take, and
// which Filter.String writes in the same syntax. It is typed against a schema: a literal
// becomes a value of the column that it is compared with, or is refused.
//
// # Syntax
//
// It is that of conditions of Expr (github.com/expr-lang/expr), whose parser reads it.
// Nothing of it is evaluated there.
//
//	n == 5   n != 5   n < 5   n <= 5   n > 5   n >= 5     comparisons; 5 < n is n > 5
//	0 <= n <= 5                                           both of them
//	n in [1, 2, 3]   n not in [1, 2, 3]                   one of a list, none of it
//	n in 0 .. 5                                           between, both ends included
//	s startsWith "ab"   s not startsWith "ab"             text and binary
//	isNull(n)   not isNull(n)
//	flag   not flag                                       a bool column, as flag == true
//	a and b   a or b   not (a)   (a)                      also &&, || and !
//	true   false
//	`a column's name`                                     any name; `` is a backtick in it
//	// …   /* … */                                        comments
//
// "and" binds more tightly than "or". "not" binds more tightly than comparisons: what it
// applies to is put in parentheses.
//
// # Literals
//
//	integers          12, -7, 1_000, 0xff, 0b101
//	floats            12, 1.5, 1e-3; rounded to the nearest value of the column's type; "NaN", "+Inf", "-Inf"
//	decimals          12, 1.50 or "1.50", never by way of a float, and never rounded
//	bool              true, false
//	text              "…" or '…', with \n, \t, \\, \", \u00e9 and so on
//	binary            hex("00ff"), b"\x00\xff", or text for its UTF-8 bytes
//	UUIDs             "6ba7b810-9dad-11d1-80b4-00c04fd430c8", or binary
//	timestamps        "2024-05-06T07:08:09.5Z", with any offset. In a column without a time zone, or in UTC,
//	                  the offset may be left out, and so may the time
//	dates             "2024-05-06"
//	times of day      "07:08", "07:08:09.25", or the time since midnight, "7h8m"
//	durations         "1h30m", "250ms"
//	month intervals   a number of months
//
// # Nulls
//
// The logic is SQL's: see memwal.Filter. A comparison with null finds nothing, and nor
// does its negation, so null is refused as a literal, and the message says what to write
// instead: isNull(n), which is the only condition that finds nulls.
//
// # Errors
//
// Every error is an *Error, which has the line and the column, and matches
// memwal.ErrInvalid. Where a name or a value does not fit the schema, it wraps a
// *memwal.FilterError. Functions and operators that there are not, such as arithmetic,
// are refused by their names. The size of a text is bounded: see [MaxText].
package filtertext
