// Package keys encodes the values of one or several Arrow columns as bytes
// whose order under bytes.Compare is the order of the values.
//
// # Encoding
//
// A key is the concatenation of its columns' encodings, in the order they were
// bound. Every encoding delimits itself, so no key of a codec is a proper prefix
// of another one, the first k columns of a key are a byte prefix that only keys
// equal in these columns share, and no value can be mistaken for a separator.
//
//	[marker]    only in codecs that allow nulls: 00 null (nothing follows), 01 value
//	bool        1 byte, 00 or 01
//	uint        big-endian, 1, 2, 4 or 8 bytes
//	int         the same, sign bit flipped; dates, times, timestamps, durations,
//	            month intervals and decimals likewise, at their own width
//	float       IEEE bits, big-endian: positives with the sign bit set, negatives
//	            with all bits flipped
//	fixed-size  the bytes themselves
//	text, bytes 00 escaped as 00 FF, then the terminator 00 01
//
// Dictionary values are encoded as the values they stand for, extension values
// by their storage.
//
// # Order
//
// Nulls come first and are equal to each other. Floats: -0.0 equals 0.0, and all
// NaN are equal to each other and greater than +Inf (the order of SQL databases;
// IEEE's totalOrder would give keys that are equal to every user but unequal
// here). Text is ordered by its UTF-8 bytes, that is by code point. Decimals of
// one column share a scale, so their unscaled integers decide.
//
// Types without a total order are refused by Bind with a *TypeError: nested
// types, unions, views of lists, run-end encoded columns, the null type,
// day-time and month-day-nano intervals (a month has no fixed number of days).
//
// # Stability
//
// The encoding of a type never changes: keys of different memtables are
// compared with each other, and they are stored in flushed generations.
//
// # Concurrency and ownership
//
// A Codec is immutable after Bind and safe for concurrent use. It retains no
// record batch. Methods that take a batch expect one of the schema that the
// codec was bound to; columns are found by position.
package keys
