package wal

import (
	"math/bits"
	"strconv"
	"strings"
)

// Extension ends the name of every object of the log.
const Extension = ".arrow"

// nameDigits is the number of binary digits in an object's name.
const nameDigits = 64

// Name returns the object name of a position: its 64 binary digits, lowest
// first, and the extension. Reversed digits spread successive positions over
// the key space, so that stores that partition by prefix do not get a hot spot.
func Name(position uint64) string {
	return ReversedDigits(position) + Extension
}

// ParseName returns the position that a name stands for. It accepts exactly
// what Name returns; anything else in the folder is somebody else's.
func ParseName(name string) (position uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, Extension)
	if !ok {
		return 0, false
	}
	return ParseReversedDigits(digits)
}

// ReversedDigits returns the 64 binary digits of n, lowest first.
func ReversedDigits(n uint64) string {
	var buf [nameDigits]byte
	digits := strconv.AppendUint(buf[:0], bits.Reverse64(n), 2)
	return strings.Repeat("0", nameDigits-len(digits)) + string(digits)
}

// ParseReversedDigits is the inverse of ReversedDigits.
func ParseReversedDigits(digits string) (n uint64, ok bool) {
	if len(digits) != nameDigits || strings.Trim(digits, "01") != "" {
		return 0, false
	}
	reversed, err := strconv.ParseUint(digits, 2, 64)
	return bits.Reverse64(reversed), err == nil
}
