package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// folder is a Store in a local folder. Its files are written once, under no
// name or a temporary one, synced, and then linked to their final name.
//
// Why linking makes the put conditional: link(2) fails when the name exists,
// atomically, for all processes of the machine (and for all clients of an NFS
// server). A rename would replace, and a check before it would race.
//
// Why folders are never removed: whether a folder's own entry is durable is
// established once by each process (see durable). If folders could go and come
// back, a put into the second one would have to sync every parent again.
type folder struct {
	dir    string
	fs     folderFS
	rounds syncRounds

	// mu guards the fields below. It is not held during I/O.
	mu sync.Mutex
	// durable has the folders whose entry in their parent, and so on up to dir,
	// has been synced by this process.
	durable map[string]bool
	// broken is the first failure after which nothing written can be trusted to
	// become durable: the kernel may have dropped the dirty pages, so that a
	// later sync succeeds over lost data.
	broken error
}

// Temporary files have this prefix and are no objects. They are removed when
// they are older than tempAge: the age of a write that nobody waits for any
// more, here or in another process.
const (
	tempPrefix = ".memwal-tmp-"
	tempAge    = 24 * time.Hour
)

// linkTries bounds how often a put is written again because its temporary file
// or its folder was removed meanwhile.
const linkTries = 3

// NewFolder returns a store in a local folder, which is made where it is
// missing. What a put has acknowledged survives a loss of power: the file, its
// name, and every new folder above it are synced. PutIfAbsent has one winner
// among all processes. The clock is that of the machine.
//
// After a failed sync of a folder, or of a file that has its name already, the
// state on disk is unknown for good: every further write fails with
// ErrUnusable, reads go on. Open the store anew after the disk has been seen
// to. A failed sync before the file has its name costs that file only; a retry
// writes a new one.
//
// The file system must have hard links and honest syncs. Elements of keys must
// not start with ".memwal-tmp-".
func NewFolder(dir string) (Store, error) {
	return newFolder(dir, osFS{})
}

func newFolder(dir string, fsys folderFS) (*folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("objstore: folder %s: %w", dir, err)
	}
	f := &folder{dir: dir, fs: fsys, durable: make(map[string]bool)}
	if err := f.makeBase(); err != nil {
		return nil, fmt.Errorf("objstore: folder %s: %w", dir, err)
	}
	f.durable[dir] = true
	return f, nil
}

// makeBase makes the folder of the store and every missing parent, and syncs
// the parent of each, up to the one that existed. The parent of that one is
// synced as well, if we may: its maker may have been killed before it
// could do so.
func (f *folder) makeBase() error {
	missing := []string{}
	top := f.dir
	for {
		info, err := f.fs.Stat(top)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a folder", top)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, top)
		top = filepath.Dir(top)
	}
	if err := f.fs.SyncDir(filepath.Dir(top)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := f.fs.Mkdir(missing[i]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := f.fs.SyncDir(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// path returns the file of a key.
func (f *folder) path(ctx context.Context, op Op, key string) (string, error) {
	if err := checkCall(ctx, op, key); err != nil {
		return "", err
	}
	if strings.HasPrefix(key, tempPrefix) || strings.Contains(key, "/"+tempPrefix) {
		return "", &Error{Op: op, Key: key, Class: ErrInvalid, Err: fmt.Errorf("%s… names temporary files", tempPrefix)}
	}
	return filepath.Join(f.dir, filepath.FromSlash(key)), nil
}

func (f *folder) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	return f.put(ctx, OpPutIfAbsent, key, body)
}

func (f *folder) Put(ctx context.Context, key string, body Body) error {
	_, err := f.put(ctx, OpPut, key, body)
	return err
}

func (f *folder) put(ctx context.Context, op Op, key string, body Body) (PutResult, error) {
	path, err := f.path(ctx, op, key)
	if err != nil {
		return PutResult{}, err
	}
	if err := f.brokenErr(); err != nil {
		return PutResult{}, &Error{Op: op, Key: key, Class: ErrUnusable, Err: err}
	}
	for try := 1; ; try++ {
		err = f.write(op, path, body)
		if try == linkTries || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		// Our temporary file or the folder was removed by somebody.
		f.forget(filepath.Dir(path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := f.fs.Stat(f.dir); serr != nil {
			err = fmt.Errorf("%w: the folder of the store is gone: %w", ErrUnusable, serr)
		}
	}
	if err != nil {
		return PutResult{}, folderError(op, key, err)
	}
	return PutResult{Date: time.Now()}, nil
}

// write writes the object once. An error before the file has its name means
// that nothing was stored; a later one breaks the store.
func (f *folder) write(op Op, path string, body Body) error {
	dir := filepath.Dir(path)
	if err := f.makeDir(dir); err != nil {
		return err
	}
	// A name is needed before the end only by a rename.
	tmp, err := f.fs.Create(dir, op == OpPut)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err := tmp.Write(body); err != nil {
		return err
	}
	// After a failed sync the pages count as clean although they were not
	// written. Syncing once more would succeed over nothing: the file has to go.
	if err := tmp.Sync(); err != nil {
		return err
	}
	if op == OpPut {
		err = tmp.Rename(path)
	} else {
		err = tmp.Link(path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return f.syncExisting(path, err)
	case err != nil:
		return err
	}
	return f.sync(dir, f.fs.SyncDir)
}

// sync makes a file or folder durable that others can see. If that fails
// nothing written here can be trusted any more.
func (f *folder) sync(path string, sync func(string) error) error {
	return f.rounds.do(path, func() error {
		err := f.brokenErr()
		if err == nil {
			if err = sync(path); err == nil || errors.Is(err, fs.ErrNotExist) {
				return err
			}
			f.mu.Lock()
			if f.broken == nil {
				f.broken = err
			}
			f.mu.Unlock()
		}
		return fmt.Errorf("%w: %w (it may be stored): %w", ErrUnusable, ErrAmbiguous, err)
	})
}

// syncExisting makes durable the object that was found in place of ours. It
// may be our own, by an attempt whose outcome was lost, or that of a process that
// was killed between link and sync; whoever reads it will count on it.
func (f *folder) syncExisting(path string, exists error) error {
	if info, err := f.fs.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%w: there are objects below that key, and a folder cannot hold both", ErrInvalid)
	}
	err := f.sync(path, f.fs.SyncFile)
	if errors.Is(err, fs.ErrNotExist) {
		return exists // deleted meanwhile: it did exist
	}
	if err == nil {
		err = f.sync(filepath.Dir(path), f.fs.SyncDir)
	}
	if err != nil {
		return err
	}
	return exists
}

// makeDir makes a folder below f.dir durable: the folder, its parents, and
// the entry of each. Existing ones are synced as well, the first time: their
// maker may have been killed before it could do so.
func (f *folder) makeDir(dir string) error {
	f.mu.Lock()
	done := f.durable[dir]
	f.mu.Unlock()
	if done {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := f.makeDir(parent); err != nil {
		return err
	}
	err := f.fs.Mkdir(dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if errors.Is(err, fs.ErrExist) {
		f.removeOldTemps(dir)
	}
	if err := f.sync(parent, f.fs.SyncDir); err != nil {
		return err
	}
	f.mu.Lock()
	f.durable[dir] = true
	f.mu.Unlock()
	return nil
}

// forget forgets that dir and its parents are durable, because one of them was
// removed. f.dir itself is not made again: it was not ours to begin with.
func (f *folder) forget(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; len(dir) > len(f.dir); dir = filepath.Dir(dir) {
		delete(f.durable, dir)
	}
}

// removeOldTemps removes what writers of named temporary files left behind
// when they were killed. Failures do not matter: the next process tries again.
func (f *folder) removeOldTemps(dir string) {
	entries, err := f.fs.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > tempAge {
			_ = f.fs.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

func (f *folder) brokenErr() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		return nil
	}
	return fmt.Errorf("an earlier sync failed, so that nothing written here can be trusted to last; "+
		"check the disk, then open the store anew: %w", f.broken)
}

func (f *folder) Get(ctx context.Context, key string) ([]byte, error) {
	return f.read(ctx, OpGet, key, 0, -1)
}

func (f *folder) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	return f.read(ctx, OpGetRange, key, offset, length)
}

// read reads a range, or to the end where length is negative.
func (f *folder) read(ctx context.Context, op Op, key string, offset, length int64) ([]byte, error) {
	path, err := f.path(ctx, op, key)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, folderError(op, key, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, folderError(op, key, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Op: op, Key: key, Class: ErrNotExist}
	}
	rest := info.Size() - offset
	if length >= 0 {
		if rest <= 0 {
			return nil, errBeyondEnd(key, offset, info.Size())
		}
		rest = min(rest, length)
	}
	data := make([]byte, rest)
	if _, err := file.ReadAt(data, offset); err != nil && !(err == io.EOF && rest == 0) {
		return nil, folderError(op, key, err)
	}
	return data, nil
}

func (f *folder) Head(ctx context.Context, key string) (Object, error) {
	path, err := f.path(ctx, OpHead, key)
	if err != nil {
		return Object{}, err
	}
	info, err := f.fs.Stat(path)
	if err != nil {
		return Object{}, folderError(OpHead, key, err)
	}
	if !info.Mode().IsRegular() {
		return Object{}, &Error{Op: OpHead, Key: key, Class: ErrNotExist}
	}
	return Object{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil
}

func (f *folder) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		notePage(ctx)
		// The walk starts at the deepest folder that holds everything.
		start, ok := prefixDir(prefix)
		if !ok {
			return
		}
		if err := f.walk(ctx, start, prefix, yield); err != nil && err != errStopWalk {
			yield(Object{}, folderError(OpList, prefix, err))
		}
	}
}

// errStopWalk ends a walk whose consumer has had enough.
var errStopWalk = errors.New("stop")

// walk yields the objects in the folder of a key and below. What vanishes
// while it runs is passed over.
func (f *folder) walk(ctx context.Context, dir, prefix string, yield func(Object, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := f.fs.ReadDir(filepath.Join(f.dir, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		key := e.Name()
		if dir != "" {
			key = dir + "/" + key
		}
		if strings.HasPrefix(e.Name(), tempPrefix) || keyFault(key) != "" {
			continue
		}
		if e.IsDir() {
			if below := key + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if err := f.walk(ctx, key, prefix, yield); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !yield(Object{Key: key, Size: info.Size(), Modified: info.ModTime()}, nil) {
			return errStopWalk
		}
	}
	return nil
}

// Delete removes the file, but no folder. It is not synced: a deletion that a loss of
// power undoes is repeated by whoever wanted it.
func (f *folder) Delete(ctx context.Context, key string) error {
	path, err := f.path(ctx, OpDelete, key)
	if err != nil {
		return err
	}
	if err := f.brokenErr(); err != nil {
		return &Error{Op: OpDelete, Key: key, Class: ErrUnusable, Err: err}
	}
	if info, err := f.fs.Stat(path); err == nil && info.IsDir() {
		return nil // no object
	}
	err = f.fs.Remove(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil
	}
	return folderError(OpDelete, key, err)
}

func (f *folder) Close() error { return nil }
