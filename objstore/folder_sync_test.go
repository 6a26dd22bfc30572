package objstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// watchedFS is the real file system, with a log of what makes things durable,
// and syncs that can be made to fail.
type watchedFS struct {
	osFS
	root string

	mu   sync.Mutex
	log  []string
	fail map[string]int // event: how many times it still fails
}

var errDisk = errors.New("the disk failed")

// event logs what happened, and says whether it fails.
func (w *watchedFS) event(format string, args ...any) error {
	e := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, e)
	if w.fail[e] > 0 {
		w.fail[e]--
		return errDisk
	}
	return nil
}

func (w *watchedFS) rel(path string) string {
	r, err := filepath.Rel(w.root, path)
	if err != nil {
		return path
	}
	return r
}

func (w *watchedFS) SyncDir(dir string) error {
	if err := w.event("sync folder %s", w.rel(dir)); err != nil {
		return err
	}
	return w.osFS.SyncDir(dir)
}

func (w *watchedFS) SyncFile(path string) error {
	if err := w.event("sync existing %s", w.rel(path)); err != nil {
		return err
	}
	return w.osFS.SyncFile(path)
}

func (w *watchedFS) Mkdir(dir string) error {
	if err := w.event("make %s", w.rel(dir)); err != nil {
		return err
	}
	return w.osFS.Mkdir(dir)
}

func (w *watchedFS) Create(dir string, named bool) (tempFile, error) {
	f, err := w.osFS.Create(dir, named)
	if err != nil {
		return nil, err
	}
	return &watchedTemp{tempFile: f, w: w}, w.event("create in %s", w.rel(dir))
}

type watchedTemp struct {
	tempFile
	w *watchedFS
}

func (t *watchedTemp) Sync() error {
	if err := t.w.event("sync file"); err != nil {
		return err
	}
	return t.tempFile.Sync()
}

func (t *watchedTemp) Link(path string) error {
	if err := t.w.event("link %s", t.w.rel(path)); err != nil {
		return err
	}
	return t.tempFile.Link(path)
}

func newWatchedFolder(t *testing.T) (*folder, *watchedFS) {
	t.Helper()
	w := &watchedFS{root: t.TempDir(), fail: map[string]int{}}
	f, err := newFolder(filepath.Join(w.root, "store"), w)
	if err != nil {
		t.Fatal(err)
	}
	w.log = nil
	return f, w
}

// inOrder checks that the events happened one after the other.
func (w *watchedFS) inOrder(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	from := 0
	for _, e := range want {
		i := slices.Index(w.log[from:], e)
		if i < 0 {
			t.Fatalf("%q did not happen in its turn; what happened:\n%s", e, strings.Join(w.log, "\n"))
		}
		from += i + 1
	}
}

func TestS03_PutIsDurableBeforeItReturns(t *testing.T) {
	f, w := newWatchedFolder(t)
	if _, err := f.PutIfAbsent(t.Context(), "a/b/k", Body{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	// Each new folder's entry, then the content, its name, and that name's entry.
	w.inOrder(t, "make store/a", "sync folder store")
	w.inOrder(t, "make store/a/b", "sync folder store/a")
	w.inOrder(t, "create in store/a/b", "sync file", "link store/a/b/k", "sync folder store/a/b")

	w.log = nil
	if _, err := f.PutIfAbsent(t.Context(), "a/b/k2", Body{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.log, "sync folder store/a") {
		t.Error("a parent that is durable was synced again")
	}
}

func TestS03_NewStoreSyncsItsParents(t *testing.T) {
	w := &watchedFS{root: t.TempDir(), fail: map[string]int{}}
	if _, err := newFolder(filepath.Join(w.root, "x", "y"), w); err != nil {
		t.Fatal(err)
	}
	w.inOrder(t, "make x", "sync folder .", "make x/y", "sync folder x")
}

func TestS03_ExistingObjectIsDurableBeforeItCounts(t *testing.T) {
	f, w := newWatchedFolder(t)
	if _, err := f.PutIfAbsent(t.Context(), "k", Body{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	// Another process, which knows nothing of what was synced.
	other, err := newFolder(f.dir, w)
	if err != nil {
		t.Fatal(err)
	}
	w.log = nil
	if _, err := other.PutIfAbsent(t.Context(), "k", Body{[]byte("x")}); !errors.Is(err, ErrExists) {
		t.Fatalf("second put: %v, want ErrExists", err)
	}
	w.inOrder(t, "sync existing store/k", "sync folder store")
}

func TestS03_FailedFileSyncIsWrittenAnew(t *testing.T) {
	f, w := newWatchedFolder(t)
	w.fail["sync file"] = 1
	_, err := f.PutIfAbsent(t.Context(), "k", Body{[]byte("x")})
	if err == nil || !Retryable(err) {
		t.Fatalf("put with a failed sync: %v, want a failure that can be retried", err)
	}
	if _, err := f.Head(t.Context(), "k"); !errors.Is(err, ErrNotExist) {
		t.Fatalf("the object is there after its sync failed: %v", err)
	}
	w.log = nil
	if _, err := f.PutIfAbsent(t.Context(), "k", Body{[]byte("x")}); err != nil {
		t.Fatalf("retry: %v", err)
	}
	// Not the same file synced again: that may succeed over lost pages.
	w.inOrder(t, "create in store", "sync file", "link store/k")
}

func TestS03_FailedFolderSyncEndsAllWrites(t *testing.T) {
	f, w := newWatchedFolder(t)
	w.fail["sync folder store"] = 1
	if _, err := f.PutIfAbsent(t.Context(), "k", Body{[]byte("x")}); err == nil {
		t.Fatal("a put whose folder was not synced succeeded")
	}
	for _, key := range []string{"k", "other"} {
		_, err := f.PutIfAbsent(t.Context(), key, Body{[]byte("x")})
		if !errors.Is(err, ErrUnusable) || errors.Is(err, ErrExists) || Retryable(err) {
			t.Errorf("put of %s after a failed folder sync: %v, want ErrUnusable for ever", key, err)
		}
	}
	if _, err := f.Get(t.Context(), "k"); err != nil && !errors.Is(err, ErrNotExist) {
		t.Errorf("reads do not go on: %v", err)
	}
}

func TestFolderListIgnoresTemporaryFiles(t *testing.T) {
	f, w := newWatchedFolder(t)
	if _, err := w.osFS.Create(f.dir, true); err != nil {
		t.Fatal(err)
	}
	if _, err := f.PutIfAbsent(t.Context(), "k", Body{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for o, err := range f.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if !slices.Equal(keys, []string{"k"}) {
		t.Errorf("listed %q, want only k", keys)
	}
}
