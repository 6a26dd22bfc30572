package objstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// spyFS records what a folder store asks for, and fails it on request.
type spyFS struct {
	osFS
	root string

	mu    sync.Mutex
	calls []string
	// fail is asked about each call, "sync-dir wal" for one, before it is carried out.
	fail func(call string) error
}

func (s *spyFS) note(op, path string) error {
	rel, err := filepath.Rel(s.root, path)
	if err != nil {
		return err
	}
	call := op + " " + filepath.ToSlash(rel)
	s.mu.Lock()
	s.calls = append(s.calls, call)
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		return fail(call)
	}
	return nil
}

func (s *spyFS) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *spyFS) Mkdir(dir string) error {
	if err := s.note("mkdir", dir); err != nil {
		return err
	}
	return s.osFS.Mkdir(dir)
}

func (s *spyFS) SyncDir(dir string) error {
	if err := s.note("sync-dir", dir); err != nil {
		return err
	}
	return s.osFS.SyncDir(dir)
}

func (s *spyFS) SyncFile(path string) error {
	if err := s.note("sync-file", path); err != nil {
		return err
	}
	return s.osFS.SyncFile(path)
}

func (s *spyFS) Create(dir string, named bool) (tempFile, error) {
	if err := s.note("create", dir); err != nil {
		return nil, err
	}
	t, err := s.osFS.Create(dir, named)
	return &spyTemp{tempFile: t, s: s, dir: dir}, err
}

type spyTemp struct {
	tempFile
	s   *spyFS
	dir string
}

func (t *spyTemp) Write(b Body) error {
	if err := t.s.note("write", t.dir); err != nil {
		return err
	}
	return t.tempFile.Write(b)
}

func (t *spyTemp) Sync() error {
	if err := t.s.note("sync", t.dir); err != nil {
		return err
	}
	return t.tempFile.Sync()
}

func (t *spyTemp) Link(path string) error {
	if err := t.s.note("link", path); err != nil {
		return err
	}
	return t.tempFile.Link(path)
}

func (t *spyTemp) Discard() {
	_ = t.s.note("discard", t.dir)
	t.tempFile.Discard()
}

func spyFolder(t *testing.T, dir string) (*folder, *spyFS) {
	t.Helper()
	spy := &spyFS{root: t.TempDir()}
	f, err := newFolder(filepath.Join(spy.root, dir), spy)
	if err != nil {
		t.Fatal(err)
	}
	return f, spy
}

func wantCalls(t *testing.T, spy *spyFS, want ...string) {
	t.Helper()
	if got := spy.take(); !slices.Equal(got, want) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestS03_NewFoldersAreSynced(t *testing.T) {
	f, spy := spyFolder(t, "a/b")
	wantCalls(t, spy, "sync-dir ..", "mkdir a", "sync-dir .", "mkdir a/b", "sync-dir a")
	put := func(key string) {
		t.Helper()
		if _, err := f.PutIfAbsent(t.Context(), key, Body{[]byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	put("s/wal/1")
	wantCalls(t, spy, "mkdir a/b/s", "sync-dir a/b", "mkdir a/b/s/wal", "sync-dir a/b/s",
		"create a/b/s/wal", "write a/b/s/wal", "sync a/b/s/wal", "link a/b/s/wal/1", "sync-dir a/b/s/wal", "discard a/b/s/wal")
	put("s/wal/2")
	wantCalls(t, spy, "create a/b/s/wal", "write a/b/s/wal", "sync a/b/s/wal", "link a/b/s/wal/2", "sync-dir a/b/s/wal", "discard a/b/s/wal")

	// Another process does not know whether the folders that it finds last.
	g, err := newFolder(f.dir, spy)
	if err != nil {
		t.Fatal(err)
	}
	wantCalls(t, spy, "sync-dir a")
	f = g
	put("s/wal/3")
	wantCalls(t, spy, "mkdir a/b/s", "sync-dir a/b", "mkdir a/b/s/wal", "sync-dir a/b/s",
		"create a/b/s/wal", "write a/b/s/wal", "sync a/b/s/wal", "link a/b/s/wal/3", "sync-dir a/b/s/wal", "discard a/b/s/wal")
}

func TestS03_ExistsIsSyncedBeforeItCounts(t *testing.T) {
	f, spy := spyFolder(t, "")
	for i := range 2 {
		spy.take()
		_, err := f.PutIfAbsent(t.Context(), "wal/1", Body{[]byte("x")})
		if exists := errors.Is(err, ErrExists); exists != (i == 1) {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	wantCalls(t, spy, "create wal", "write wal", "sync wal", "link wal/1", "sync-file wal/1", "sync-dir wal", "discard wal")
}

// TestS03_FailedFileSyncIsNotRetried: the file whose sync failed goes, and the retry
// writes another one.
func TestS03_FailedFileSyncIsNotRetried(t *testing.T) {
	f, spy := spyFolder(t, "")
	failed := false
	spy.fail = func(call string) error {
		if call == "sync wal" && !failed {
			failed = true
			return syscall.EIO
		}
		return nil
	}
	_, err := f.PutIfAbsent(t.Context(), "wal/1", Body{[]byte("x")})
	if !errors.Is(err, syscall.EIO) || !Retryable(err) {
		t.Fatalf("put with a failing sync: %v, want a retryable EIO", err)
	}
	if _, err := f.Head(t.Context(), "wal/1"); !errors.Is(err, ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	spy.take()
	if _, err := f.PutIfAbsent(t.Context(), "wal/1", Body{[]byte("x")}); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, spy, "create wal", "write wal", "sync wal", "link wal/1", "sync-dir wal", "discard wal")
}

// TestS03_FailedFolderSyncIsTerminal, likewise that of a file that has its name.
func TestS03_FailedFolderSyncIsTerminal(t *testing.T) {
	for _, c := range []struct{ bad, first, second string }{
		{"sync-dir wal", "wal/1", "wal/2"},
		{"sync-dir wal", "wal/1", "wal/1"}, // exists
		{"sync-file wal/1", "wal/1", "wal/1"},
		{"sync-dir .", "other/1", "wal/1"}, // the parent of a new folder
	} {
		f, spy := spyFolder(t, "")
		bad, first, second := c.bad, c.first, c.second
		if _, err := f.PutIfAbsent(t.Context(), first, nil); err != nil {
			t.Fatal(err)
		}
		failed := false
		spy.fail = func(call string) error {
			if call == bad && !failed {
				failed = true
				return syscall.EIO
			}
			return nil
		}
		_, err := f.PutIfAbsent(t.Context(), second, nil)
		if !failed || !errors.Is(err, ErrUnusable) || errors.Is(err, ErrExists) || !MaybeApplied(err) || Retryable(err) {
			t.Fatalf("%s fails: %v; want ErrUnusable, maybe applied", bad, err)
		}
		_, err = f.PutIfAbsent(t.Context(), "wal/2", nil)
		for op, err := range map[string]error{"PutIfAbsent": err, "Put": f.Put(t.Context(), "h", nil), "Delete": f.Delete(t.Context(), "wal/1")} {
			if !errors.Is(err, ErrUnusable) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%s after %s has failed: %v", op, bad, err)
			}
		}
		if _, err := f.Get(t.Context(), first); err != nil {
			t.Errorf("Get after %s has failed: %v", bad, err)
		}
	}
}

// TestS03_SyncsDoNotOverlap: of puts side by side nobody believes a sync that
// another's failure may have robbed of its meaning.
func TestS03_SyncsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &folder{dir: "/", durable: map[string]bool{}}
		running, ran := 0, 0
		sync := func(string) error {
			running++
			if running > 1 {
				t.Error("two syncs of one folder at once")
			}
			time.Sleep(time.Second)
			running--
			if ran++; ran == 2 {
				return syscall.EIO
			}
			return nil
		}
		errs := make([]error, 6)
		for i := range errs {
			go func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond) // 0 | 1 2 3 | 4 5
				errs[i] = f.sync("/wal", sync)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for i, err := range errs {
			if (err == nil) != (i == 0) || i > 0 && !errors.Is(err, ErrUnusable) {
				t.Errorf("put %d: %v", i, err)
			}
		}
		if ran != 2 || len(f.rounds.running) != 0 {
			t.Errorf("%d syncs ran, want 2: one alone, one shared, none after the failure; left: %v", ran, f.rounds.running)
		}
	})
}

func TestFolderWritesAgainWhenItsFileVanishes(t *testing.T) {
	f, spy := spyFolder(t, "")
	vanish := 2
	spy.fail = func(call string) error {
		if strings.HasPrefix(call, "link") && vanish > 0 {
			vanish--
			return &os.LinkError{Op: "link", Err: syscall.ENOENT}
		}
		return nil
	}
	if _, err := f.PutIfAbsent(t.Context(), "a/b/1", Body{[]byte("x")}); err != nil {
		t.Fatalf("with two vanished files: %v", err)
	}
	vanish = 100
	if _, err := f.PutIfAbsent(t.Context(), "a/b/2", nil); err == nil || !Retryable(err) {
		t.Fatalf("with all files vanishing: %v", err)
	}
	vanish = 0
	// The same with folders that are really gone.
	if err := os.RemoveAll(filepath.Join(f.dir, "a")); err != nil {
		t.Fatal(err)
	}
	spy.take()
	if _, err := f.PutIfAbsent(t.Context(), "a/b/3", nil); err != nil {
		t.Fatal(err)
	}
	if calls := spy.take(); !slices.Contains(calls, "sync-dir .") || !slices.Contains(calls, "sync-dir a") {
		t.Errorf("folders that were made again are not synced: %q", calls)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.PutIfAbsent(t.Context(), "a/b/4", nil); !errors.Is(err, ErrUnusable) {
		t.Errorf("with the folder of the store gone: %v", err)
	}
}

func TestFolderTemporaryFiles(t *testing.T) {
	f, _ := spyFolder(t, "")
	if _, err := f.PutIfAbsent(t.Context(), "wal/1", nil); err != nil {
		t.Fatal(err)
	}
	old, fresh := filepath.Join(f.dir, "wal", tempPrefix+"old"), filepath.Join(f.dir, "wal", tempPrefix+"fresh")
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-tempAge - time.Minute)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	for o, err := range f.List(t.Context(), "") {
		if err != nil || o.Key != "wal/1" {
			t.Errorf("List: %v, %v", o, err)
		}
	}
	if _, err := f.Get(t.Context(), "wal/"+tempPrefix+"fresh"); !errors.Is(err, ErrInvalid) {
		t.Errorf("Get of a temporary file: %v", err)
	}
	g, err := newFolder(f.dir, osFS{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.PutIfAbsent(t.Context(), "wal/2", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old temporary file: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh temporary file: %v", err)
	}
}

// TestFolderNamedFiles goes the way of systems that have no files without a name.
func TestFolderNamedFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1")
	for i := range 2 {
		tmp, err := osFS{}.Create(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(tmp.Write(Body{[]byte(fmt.Sprint(i))}), tmp.Sync())
		if err != nil {
			t.Fatal(err)
		}
		if err := tmp.Link(path); errors.Is(err, fs.ErrExist) != (i == 1) {
			t.Errorf("link %d: %v", i, err)
		}
		tmp.Discard()
	}
	if data, err := os.ReadFile(path); string(data) != "0" || err != nil {
		t.Errorf("the file has %q, %v", data, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestFolderKeyBelowAnObject(t *testing.T) {
	f, _ := spyFolder(t, "")
	if _, err := f.PutIfAbsent(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.PutIfAbsent(t.Context(), "a/b", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("put below an object: %v", err)
	}
	if _, err := f.PutIfAbsent(t.Context(), "d/e", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.PutIfAbsent(t.Context(), "d", nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("put at a folder: %v", err)
	}
	if _, err := NewFolder(filepath.Join(f.dir, "a")); err == nil {
		t.Error("a file as the folder of a store")
	}
}
