package objstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKeyLen is the greatest length of a key in bytes. S3 has the smallest
// limit, 1024; it counts the prefix of the store, which has the rest.
const MaxKeyLen = 768

// maxKeyElem is the greatest length of one path element in bytes: the limit of
// the usual file systems.
const maxKeyElem = 255

// CheckKey reports whether key can be stored in every store. See the package
// documentation for the rules. The error is of class [ErrInvalid].
func CheckKey(key string) error {
	if reason := keyFault(key); reason != "" {
		return fmt.Errorf("%w: key %.100q %s", ErrInvalid, key, reason)
	}
	return nil
}

func keyFault(key string) string {
	switch {
	case key == "":
		return "is empty"
	case len(key) > MaxKeyLen:
		return fmt.Sprintf("is %d bytes long, the limit is %d", len(key), MaxKeyLen)
	case !utf8.ValidString(key):
		return "is not valid UTF-8"
	case strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }):
		return "contains a control character or a backslash"
	}
	for elem := range strings.SplitSeq(key, "/") {
		switch {
		case elem == "" || elem == "." || elem == "..":
			return fmt.Sprintf("contains the path element %q", elem)
		case len(elem) > maxKeyElem:
			return fmt.Sprintf("contains a path element of %d bytes, the limit is %d", len(elem), maxKeyElem)
		}
	}
	return ""
}

// prefixDir returns the part of a listing's prefix before its last slash. ok is
// false if no key can have the prefix: some services refuse to list such a one.
func prefixDir(prefix string) (dir string, ok bool) {
	i := strings.LastIndexByte(prefix, '/')
	if i < 0 {
		return "", true
	}
	return prefix[:i], keyFault(prefix[:i]) == ""
}

// checkRange checks the arguments of a GetRange.
func checkRange(key string, offset, length int64) error {
	if err := checkOp(OpGetRange, key); err != nil {
		return err
	}
	if offset < 0 || length < 1 {
		return &Error{Op: OpGetRange, Key: key, Class: ErrInvalid,
			Err: fmt.Errorf("offset %d must not be negative, length %d must be positive", offset, length)}
	}
	return nil
}

// errBeyondEnd is the failure of a range that starts outside of its object.
func errBeyondEnd(key string, offset, size int64) error {
	return &Error{Op: OpGetRange, Key: key, Class: ErrInvalid,
		Err: fmt.Errorf("offset %d is not within the %d bytes of the object", offset, size)}
}

// checkOp checks the key of a request, and gives the failure its place.
func checkOp(op Op, key string) error {
	if reason := keyFault(key); reason != "" {
		return &Error{Op: op, Key: key, Class: ErrInvalid, Err: errors.New("key " + reason)}
	}
	return nil
}

// checkCall checks key and context, for stores that would not look at it.
func checkCall(ctx context.Context, op Op, key string) error {
	if err := checkOp(op, key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &Error{Op: op, Key: key, Err: err}
	}
	return nil
}
