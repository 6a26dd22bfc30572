package manifest

import (
	"strings"

	"github.com/memwal/memwal-go/internal/wal"
)

const (
	extension = ".binpb"
	hintName  = "version_hint.json"
)

// Name returns the object name of a version: its 64 binary digits, lowest
// first, and the extension.
func Name(version uint64) string { return wal.ReversedDigits(version) + extension }

// ParseName returns the version that a name stands for. It accepts exactly what
// Name returns for versions from 1.
func ParseName(name string) (version uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, extension)
	if !ok {
		return 0, false
	}
	version, ok = wal.ParseReversedDigits(digits)
	return version, ok && version != 0
}
