package objstore

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// syncFileFlags open a file for a sync; on Linux reading is enough.
const syncFileFlags = os.O_RDONLY

// SyncDir makes the entries of a folder durable.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// createUnnamed opens a file without a name (O_TMPFILE): if we are killed, the
// kernel frees it, and the folder changes once for each object instead of three
// times. Old kernels and some file systems do not know it, and without /proc it
// cannot be linked: ErrUnsupported.
func createUnnamed(dir string) (tempFile, error) {
	if !procMounted() {
		return nil, errors.ErrUnsupported
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	for err == unix.EINTR {
		fd, err = unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	}
	switch err {
	case nil:
		return &unnamedTemp{os.NewFile(uintptr(fd), dir+"/(unnamed)")}, nil
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL:
		return nil, errors.ErrUnsupported
	}
	return nil, &fs.PathError{Op: "open unnamed file in", Path: dir, Err: err}
}

var procMounted = sync.OnceValue(func() bool {
	_, err := os.Stat(procFDs)
	return err == nil
})

// procFDs has our open files. Going through it needs no privilege to give a file
// a name, while AT_EMPTY_PATH needs one.
const procFDs = "/proc/self/fd/"

// unnamedTemp is a temporary file without a name.
type unnamedTemp struct{ f *os.File }

func (t *unnamedTemp) Write(body Body) error { return writeBody(t.f, body) }
func (t *unnamedTemp) Sync() error           { return t.f.Sync() }
func (t *unnamedTemp) Discard()              { _ = t.f.Close() }

// Link gives the file its name.
func (t *unnamedTemp) Link(path string) error {
	self := procFDs + strconv.Itoa(int(t.f.Fd()))
	err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	for err == unix.EINTR {
		err = unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: self, New: path, Err: err}
	}
	return nil
}

func (t *unnamedTemp) Rename(string) error { return errors.ErrUnsupported }
