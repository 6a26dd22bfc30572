package objstore

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// folderFS is what a folder store asks of the file system when it writes. It is
// an interface so that tests can watch the order of syncs and make them fail,
// which no real file system does on request.
type folderFS interface {
	// Create makes a file in dir that is not an object yet. It has a name only
	// if it must.
	Create(dir string, named bool) (tempFile, error)
	Mkdir(dir string) error
	SyncDir(dir string) error
	SyncFile(path string) error
	Stat(path string) (fs.FileInfo, error)
	ReadDir(dir string) ([]fs.DirEntry, error)
	Remove(path string) error
}

// tempFile is a file that is being written.
type tempFile interface {
	Write(body Body) error
	Sync() error
	Link(path string) error   // to a name that must not exist
	Rename(path string) error // over whatever has that name
	// Discard closes the file, and removes it unless it got a name.
	Discard()
}

// osFS is the real file system.
type osFS struct{}

func (osFS) Mkdir(dir string) error                    { return os.Mkdir(dir, 0o777) }
func (osFS) Stat(path string) (fs.FileInfo, error)     { return os.Stat(path) }
func (osFS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (osFS) Remove(path string) error                  { return os.Remove(path) }

func (osFS) SyncFile(path string) error {
	f, err := os.OpenFile(path, syncFileFlags, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (osFS) Create(dir string, named bool) (tempFile, error) {
	if !named {
		if f, err := createUnnamed(dir); err == nil || !errors.Is(err, errors.ErrUnsupported) {
			return f, err
		}
	}
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return nil, err
	}
	// CreateTemp makes files for their owner alone.
	if err := f.Chmod(0o644); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &namedTemp{f: f}, nil
}

// namedTemp is a temporary file with a name.
type namedTemp struct {
	f     *os.File
	moved bool
}

func (t *namedTemp) Write(body Body) error { return writeBody(t.f, body) }
func (t *namedTemp) Sync() error           { return t.f.Sync() }

func (t *namedTemp) Link(path string) error { return os.Link(t.f.Name(), path) }

func (t *namedTemp) Rename(path string) error {
	// Windows renames no open file. The content is synced already.
	if err := t.f.Close(); err != nil {
		return err
	}
	err := os.Rename(t.f.Name(), path)
	t.moved = err == nil
	return err
}

func (t *namedTemp) Discard() {
	_ = t.f.Close()
	if !t.moved {
		_ = os.Remove(t.f.Name())
	}
}

// writeBody writes small slices through a buffer, and large ones, which
// bufio passes through, as they are.
func writeBody(f *os.File, body Body) error {
	w := fileBuffers.Get().(*bufio.Writer)
	defer fileBuffers.Put(w)
	w.Reset(f)
	defer w.Reset(nil)
	for _, slice := range body {
		if _, err := w.Write(slice); err != nil {
			return err
		}
	}
	return w.Flush()
}

var fileBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// isNotDir reports that an element of a path is a file where a folder would be
// needed: nothing can exist below it.
func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// folderError classifies an error of the file system. A failed write stored
// nothing, but has no class of its own: retried, it is written anew.
func folderError(op Op, key string, err error) error {
	e := &Error{Op: op, Key: key, Err: err}
	write := op == OpPut || op == OpPutIfAbsent
	switch {
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrUnusable):
		// says so itself
	case errors.Is(err, fs.ErrExist):
		e.Class = ErrExists
	case isNotDir(err) && write:
		e.Class = ErrInvalid
		e.Err = errors.Join(errors.New("a part of the key is an object, and a folder cannot hold both"), err)
	case errors.Is(err, fs.ErrNotExist) && write:
		// The folder keeps vanishing: passing, of no class.
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		e.Class = ErrNotExist
	case errors.Is(err, fs.ErrPermission):
		e.Class = ErrPermission
	}
	return e
}
