//go:build unix

package fight

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// moment is a place in the order of all that happens, in all processes.
type moment uint64

// clock gives out moments. It is a counter in a file that every process maps into
// its memory: a moment that was taken after another one, anywhere, is larger.
type clock struct{ count *uint64 }

// newClockFile makes the file.
func newClockFile(path string) error { return os.WriteFile(path, make([]byte, 8), 0o600) }

// openClock maps the file for the rest of the process's life.
func openClock(path string) (clock, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return clock{}, err
	}
	defer f.Close()
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return clock{}, fmt.Errorf("map %s: %w", path, err)
	}
	return clock{(*uint64)(unsafe.Pointer(&mem[0]))}, nil
}

func (c clock) now() moment { return moment(atomic.AddUint64(c.count, 1)) }
