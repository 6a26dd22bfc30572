package memwal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/objstore"
)

// The tests of fencing and replay read the store itself: what a writer says of
// its log counts less than what is there.

// plainOptions are those of an append-only table: a row that is stored twice
// shows twice. Every batch is appended at once, as an entry of its own.
func plainOptions() *Options {
	return &Options{
		Indexes:    []index.Config{index.Ordered{Name: "by_n", Columns: []index.Column{{Name: "n"}}}},
		FlushBytes: 1, MaxEntryBytes: 1,
	}
}

// wantSeq is what seq's rows read as.
func wantSeq(first int64, n int) []testRow {
	rows := make([]testRow, n)
	for i := range rows {
		id := first + int64(i)
		rows[i] = testRow{id, fmt.Sprintf("row %d", id), id * 10}
	}
	return rows
}

// promptOptions are keyedOptions with every batch appended at once.
func promptOptions() *Options {
	o := keyedOptions()
	o.FlushBytes, o.MaxEntryBytes = 1, 1
	return o
}

func checkRows(t testing.TB, w *Writer, want []testRow) {
	t.Helper()
	if got := rowsOf(t, w); !slices.Equal(got, want) {
		t.Fatalf("rows: got %v, want %v", got, want)
	}
}

// over is a process's own way to a store that others use, too.
func over(inner objstore.Store) *testStore { return &testStore{inner: inner} }

// walObject is an object of the log.
type walObject struct {
	pos    uint64
	header wal.Header
	data   []byte
}

func (o walObject) key() string { return layoutOf(testShard).wal + wal.Name(o.pos) }

// logOf reads the log of the test shard, in order of position.
func logOf(t testing.TB, s objstore.Store) []walObject {
	t.Helper()
	var log []walObject
	dir := layoutOf(testShard).wal
	for key, data := range contents(t, s, dir) {
		pos, ok := wal.ParseName(strings.TrimPrefix(key, dir))
		if !ok {
			continue
		}
		h, err := wal.DecodeHeader([]byte(data))
		if err != nil {
			t.Fatalf("WAL object %d: %v", pos, err)
		}
		log = append(log, walObject{pos, h, []byte(data)})
	}
	slices.SortFunc(log, func(a, b walObject) int { return cmp.Compare(a.pos, b.pos) })
	return log
}

// shape writes a log as text: F2 is a fence of epoch 2, d2 data, a dot an empty
// position.
func shape(log []walObject) string {
	var b strings.Builder
	next := uint64(1)
	for _, o := range log {
		for ; next < o.pos; next++ {
			b.WriteString(" .")
		}
		next++
		kind := "d"
		if o.header.Fence {
			kind = "F"
		}
		fmt.Fprintf(&b, " %s%d", kind, o.header.Epoch)
	}
	return strings.TrimSpace(b.String())
}

func checkShape(t testing.TB, s objstore.Store, want string) {
	t.Helper()
	if got := shape(logOf(t, s)); got != want {
		t.Errorf("log: got %q, want %q", got, want)
	}
}

// contents is what the store holds below prefix.
func contents(t testing.TB, s objstore.Store, prefix string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	ctx := context.Background()
	for o, err := range s.List(ctx, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Get(ctx, o.Key)
		if err != nil {
			t.Fatal(err)
		}
		all[o.Key] = string(data)
	}
	return all
}

// checkUntouched fails unless the store holds what it held before.
func checkUntouched(t testing.TB, s objstore.Store, before map[string]string) {
	t.Helper()
	now := contents(t, s, "")
	for key, data := range now {
		if old, ok := before[key]; !ok || old != data {
			t.Errorf("%s was written", key)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			t.Errorf("%s was deleted", key)
		}
	}
}

// copyOf returns a store in memory with the same contents.
func copyOf(t testing.TB, contents map[string]string) objstore.Store {
	t.Helper()
	s := objstore.NewMemory()
	for _, key := range slices.Sorted(maps.Keys(contents)) {
		putRaw(t, s, key, []byte(contents[key]))
	}
	return s
}

// putRaw writes an object as somebody else would.
func putRaw(t testing.TB, s objstore.Store, key string, data []byte) {
	t.Helper()
	if err := s.Put(context.Background(), key, objstore.Body{data}); err != nil {
		t.Fatal(err)
	}
}

func deleteRaw(t testing.TB, s objstore.Store, key string) {
	t.Helper()
	if err := s.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
}

// manifests opens the control file of the test shard.
func manifests(s objstore.Store) *manifest.Log {
	return manifest.New(s, layoutOf(testShard).manifest, nil)
}

func newestManifest(t testing.TB, s objstore.Store) *manifest.Manifest {
	t.Helper()
	m, err := manifests(s).Newest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// versionsOf lists the versions of the manifest, in order.
func versionsOf(t testing.TB, s objstore.Store) []uint64 {
	t.Helper()
	var versions []uint64
	dir := layoutOf(testShard).manifest
	for key := range contents(t, s, dir) {
		if v, ok := manifest.ParseName(strings.TrimPrefix(key, dir)); ok {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return versions
}

// checkVersions fails unless the manifest has the versions from 1 to n, each
// built on the one before.
func checkVersions(t testing.TB, s objstore.Store, n int) {
	t.Helper()
	got := versionsOf(t, s)
	if len(got) != n || n > 0 && (got[0] != 1 || got[n-1] != uint64(n)) {
		t.Errorf("manifest versions: got %v, want 1 to %d", got, n)
	}
	var last wal.PutID
	for _, v := range got {
		data, err := s.Get(context.Background(), layoutOf(testShard).manifest+manifest.Name(v))
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if m.ParentCommitID != last {
			t.Errorf("version %d was built on commit %v, before it is %v", v, m.ParentCommitID, last)
		}
		last = m.CommitID
	}
}

// checkFenced fails unless err says that somebody of epoch theirs has taken over.
func checkFenced(t testing.TB, err error, theirs uint64) {
	t.Helper()
	if !errors.Is(err, ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
	fenced, ok := errors.AsType[*FencedError](err)
	if !ok || fenced.Theirs.Epoch != theirs {
		t.Errorf("got %v, want a FencedError that names epoch %d", err, theirs)
	}
}

// late is a store that keeps puts to the log on their way: they arrive when land
// is called, if need be long after the process that sent them has died.
type late struct {
	objstore.Store
	mu struct {
		sync.Mutex
		on   bool
		kept map[string][]byte
	}
}

func newLate(inner objstore.Store) *late {
	l := &late{Store: inner}
	l.mu.kept = make(map[string][]byte)
	return l
}

// keep starts to keep puts on their way.
func (l *late) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.on = true
}

func (l *late) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	l.mu.Lock()
	keep := l.mu.on && strings.HasSuffix(key, wal.Extension)
	if keep {
		l.mu.kept[key] = body.Bytes()
	}
	l.mu.Unlock()
	if !keep {
		return l.Store.PutIfAbsent(ctx, key, body)
	}
	<-ctx.Done()
	return objstore.PutResult{}, &objstore.Error{Op: objstore.OpPutIfAbsent, Key: key, Class: objstore.ErrAmbiguous, Err: ctx.Err()}
}

func (l *late) held(key string) (data []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok = l.mu.kept[key]
	return data, ok
}

// land makes the puts at the positions arrive, waiting for those that are not sent yet,
// and tells for each whether it found the position empty.
func (l *late) land(t testing.TB, positions ...uint64) []bool {
	t.Helper()
	var landed []bool
	for _, pos := range positions {
		key := layoutOf(testShard).wal + wal.Name(pos)
		data, ok := l.held(key)
		for n := 0; !ok && n < 10_000; n++ { // a busy machine sends it late
			time.Sleep(time.Millisecond)
			data, ok = l.held(key)
		}
		if !ok {
			t.Fatalf("no put at position %d is on its way", pos)
		}
		_, err := l.Store.PutIfAbsent(context.Background(), key, objstore.Body{data})
		if err != nil && !errors.Is(err, objstore.ErrExists) {
			t.Fatal(err)
		}
		landed = append(landed, err == nil)
	}
	return landed
}

func oneBatch(rec arrow.RecordBatch) []arrow.RecordBatch { return []arrow.RecordBatch{rec} }

// dieInFlight opens the shard of inner as its first writer, puts row 0, and dies
// with four more puts on their way, of the rows from 100 on: their positions are
// the ones from 3 on. It needs the bubble of a synctest.
func dieInFlight(t testing.TB, inner objstore.Store) *late {
	t.Helper()
	dead := newLate(inner)
	w := mustOpen(t, dead, plainOptions())
	mustPut(t, w, seq(t, 0, 1))
	dead.keep()
	for i := range int64(4) {
		if _, err := w.PutAsync(t.Context(), seq(t, 100+i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	w.Abort()
	return dead
}
