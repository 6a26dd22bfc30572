package flusher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/internal/wal"
	"github.com/memwal/memwal-go/memtable"
	"github.com/memwal/memwal-go/objstore"
)

const (
	rigDir      = "wal/"
	rigEpoch    = 2
	rowBytes    = 10 // window bytes that a row counts for
	rigInterval = 100 * time.Millisecond
)

var rigSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil)

// rig drives a flusher like a writer does. The log begins with the fence of
// rigEpoch at position 1; the id of a row is its ordinal.
type rig struct {
	t       *testing.T
	store   *putStore
	mem     *memory.CheckedAllocator
	cursors *memtable.Cursors
	flusher *WAL
	tables  atomic.Pointer[[]*memtable.Memtable]

	durable atomic.Int64 // calls of OnDurable

	mu       sync.Mutex
	failures []error
	live     func()                      // see onLive
	owner    func(context.Context) error // see onCheck; nil: still the owner
}

// newRig starts a flusher, which ends with the test: then goroutines and Arrow
// memory are looked for. It must be called in a bubble.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, store: &putStore{Store: objstore.NewMemory()},
		mem: memory.NewCheckedAllocator(memory.NewGoAllocator()), cursors: memtable.NewCursors(0),
	}
	r.tables.Store(&[]*memtable.Memtable{newTable(1, 0)})
	tail := wal.Tuple{Position: 1, Epoch: rigEpoch, PutID: testID(1), Generation: 1}
	r.plant(1, wal.Header{Epoch: rigEpoch, PutID: tail.PutID, Fence: true})
	cfg := Config{
		Store: r.store, Dir: rigDir, Schema: rigSchema, Epoch: rigEpoch, Tail: tail, Proof: time.Now(),
		Live: func() []*memtable.Memtable {
			r.mu.Lock()
			live := r.live
			r.mu.Unlock()
			if live != nil {
				live()
			}
			return *r.tables.Load()
		},
		Cursors: r.cursors,
		CheckOwner: func(ctx context.Context) error {
			r.mu.Lock()
			owner := r.owner
			r.mu.Unlock()
			if owner == nil {
				return nil
			}
			return owner(ctx)
		},
		OnFail: func(err error) {
			r.mu.Lock()
			r.failures = append(r.failures, err)
			r.mu.Unlock()
			r.cursors.Fail(err)
		},
		OnDurable: func() { r.durable.Add(1) },
		Interval:  rigInterval, FlushBytes: 1 << 20, MaxEntryBytes: 1 << 20, MaxInFlight: 4,
		OwnershipCheckAfter: 30 * time.Second,
	}
	if change != nil {
		change(&cfg)
	}
	r.flusher = New(cfg)
	t.Cleanup(func() {
		_ = r.flusher.Stop()
		for _, m := range *r.tables.Load() {
			m.Release()
		}
		r.mem.AssertSize(t, 0)
	})
	return r
}

// onLive makes f be called whenever the flusher looks at the memtables.
func (r *rig) onLive(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = f
}

// onCheck makes f answer the ownership checks.
func (r *rig) onCheck(f func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owner = f
}

func newTable(generation, first uint64) *memtable.Memtable {
	return memtable.New(memtable.Config{Generation: generation, FirstRow: first, Schema: rigSchema})
}

// put accepts a batch of n rows and returns the ordinal after it.
func (r *rig) put(n int) uint64 {
	r.t.Helper()
	tables := *r.tables.Load()
	m := tables[len(tables)-1]
	b := array.NewRecordBuilder(r.mem, rigSchema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(m.EndRow()) + int64(i))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	if err := m.Append(rec, int64(n)*rowBytes, int64(n)*rowBytes); err != nil {
		r.t.Fatal(err)
	}
	end := m.EndRow()
	r.cursors.Accept(end)
	r.flusher.Wake()
	return end
}

// freeze freezes the active memtable and starts the next.
func (r *rig) freeze() {
	old := *r.tables.Load()
	active := old[len(old)-1]
	active.Freeze()
	next := append(slices.Clone(old), newTable(active.Generation()+1, active.EndRow()))
	r.tables.Store(&next)
}

// wantDurable checks the durable cursor once everything that needs no time has
// happened.
func (r *rig) wantDurable(want uint64) {
	r.t.Helper()
	synctest.Wait()
	if got := r.cursors.Durable(); got != want {
		r.t.Fatalf("durable is %d, want %d", got, want)
	}
}

// wantAlive checks that nothing has failed.
func (r *rig) wantAlive() {
	r.t.Helper()
	if err := r.cursors.Err(); err != nil {
		r.t.Fatalf("the flusher failed: %v", err)
	}
}

// failure returns the one failure that was told.
func (r *rig) failure() error {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) != 1 {
		r.t.Fatalf("OnFail was called %d times: %v", len(r.failures), r.failures)
	}
	return r.failures[0]
}

// plant puts somebody's object at a position.
func (r *rig) plant(pos uint64, h wal.Header) {
	r.t.Helper()
	var body objstore.Body
	var err error
	if h.Fence {
		body, err = wal.EncodeFence(h)
	} else {
		var enc *wal.Encoded
		b := array.NewRecordBuilder(memory.DefaultAllocator, rigSchema)
		b.Field(0).(*array.Int64Builder).Append(-1)
		rec := b.NewRecordBatch()
		if enc, err = wal.Encode(h, rigSchema, []arrow.RecordBatch{rec}, nil, wal.EncodeOptions{}); err == nil {
			body = enc.Body
		}
	}
	if err == nil {
		_, err = r.store.Store.PutIfAbsent(context.Background(), rigDir+wal.Name(pos), body)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// logged is a live entry.
type logged struct {
	pos, generation, first, end uint64
}

// log reads the log like a replay does: up to the first empty position, live
// entries only. It checks that they hold all rows up to the last, in order.
func (r *rig) log() (entries []logged, dead int) {
	r.t.Helper()
	chain := wal.NewChain(wal.Start())
	var next uint64
	for pos := uint64(1); ; pos++ {
		data, err := r.store.Store.Get(context.Background(), rigDir+wal.Name(pos))
		if errors.Is(err, objstore.ErrNotExist) {
			return entries, dead
		}
		if err != nil {
			r.t.Fatal(err)
		}
		e, err := wal.Decode(data, wal.DecodeOptions{})
		if err != nil {
			r.t.Fatalf("entry %d: %v", pos, err)
		}
		verdict, err := chain.Judge(pos, e.Header, e.Rows)
		if err != nil {
			r.t.Fatal(err)
		}
		switch {
		case verdict == wal.Dead:
			dead++
		case !e.Header.Fence:
			entries = append(entries, logged{pos, e.Header.Generation, e.Header.FirstRow, e.Header.FirstRow + uint64(e.Rows)})
			for _, b := range e.Batches {
				for _, id := range b.Column(0).(*array.Int64).Int64Values() {
					if uint64(id) != next {
						r.t.Fatalf("entry %d has row %d where %d is next", pos, id, next)
					}
					next++
				}
			}
		}
		e.Release()
	}
}

// wantLog checks where the rows of the log are.
func (r *rig) wantLog(dead int, want ...logged) {
	r.t.Helper()
	got, gotDead := r.log()
	if !slices.Equal(got, want) || gotDead != dead {
		r.t.Errorf("the log has {position, generation, first row, end} %v and %d dead entries, want %v and %d", got, gotDead, want, dead)
	}
}

// putStore lets a test act on puts and gets. The hooks are set before the
// requests come.
type putStore struct {
	objstore.Store
	onPut func(ctx context.Context, pos uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error)
	onGet func(pos uint64) error // an error is the reply

	mu   sync.Mutex
	puts []put
}

// put is a request that came in.
type put struct {
	pos   uint64
	sum   uint32
	first uint64 // row
	rows  int64
	at    time.Time
}

func (s *putStore) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	pos, _ := wal.ParseName(key[len(rigDir):])
	first, rows := entryOf(body)
	s.mu.Lock()
	s.puts = append(s.puts, put{pos, body.CRC32C(), first, rows, time.Now()})
	s.mu.Unlock()
	apply := func() (objstore.PutResult, error) {
		// What is on the wire lands, whether its sender still waits or not.
		return s.Store.PutIfAbsent(context.WithoutCancel(ctx), key, body)
	}
	if s.onPut != nil {
		return s.onPut(ctx, pos, apply)
	}
	return apply()
}

func (s *putStore) Get(ctx context.Context, key string) ([]byte, error) {
	pos, _ := wal.ParseName(key[len(rigDir):])
	if s.onGet != nil {
		if err := s.onGet(pos); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, key)
}

// requests returns the puts so far.
func (s *putStore) requests() []put {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.puts)
}

// gates holds the puts at each position until it is opened.
type gates struct {
	mu    sync.Mutex
	chans map[uint64]chan struct{}
}

// hold makes the puts of the store wait.
func (s *putStore) hold() *gates {
	g := &gates{chans: make(map[uint64]chan struct{})}
	s.onPut = func(ctx context.Context, pos uint64, apply func() (objstore.PutResult, error)) (objstore.PutResult, error) {
		select {
		case <-g.at(pos):
			return apply()
		case <-ctx.Done():
			return objstore.PutResult{}, ctx.Err()
		}
	}
	return g
}

func (g *gates) at(pos uint64) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.chans[pos] == nil {
		g.chans[pos] = make(chan struct{})
	}
	return g.chans[pos]
}

// open lets the puts at the positions through, for ever.
func (g *gates) open(positions ...uint64) {
	for _, pos := range positions {
		close(g.at(pos))
	}
	synctest.Wait()
}
