package memwal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/memwal/memwal-go/objstore"
)

// TestF03_SchemaThatCannotBeReadBack opens with schemas that the reader of the
// log would refuse. A manifest or an entry that has such a schema makes the shard
// unreadable for good, so the open must fail before it writes anything.
func TestF03_SchemaThatCannotBeReadBack(t *testing.T) {
	withMetadata := func(n int) *arrow.Schema {
		md := arrow.NewMetadata([]string{"pandas"}, []string{strings.Repeat("x", n)})
		return arrow.NewSchema(testSchema.Fields(), &md)
	}
	var deep arrow.DataType = arrow.PrimitiveTypes.Int64
	for range 64 {
		deep = arrow.StructOf(arrow.Field{Name: "a", Type: deep, Nullable: true})
	}
	for name, schema := range map[string]*arrow.Schema{
		"nested too deep":               arrow.NewSchema(append(testSchema.Fields(), arrow.Field{Name: "deep", Type: deep, Nullable: true}), nil),
		"more metadata than a message":  withMetadata(16 << 20),
		"readable in the manifest only": withMetadata(16<<20 - 450), // an entry has its header beside it
	} {
		t.Run(name, func(t *testing.T) {
			store := objstore.NewMemory()
			running := mustOpen(t, store, nil)
			mustPut(t, running, seq(t, 1, 3))
			if w, err := Open(t.Context(), store, testShard, schema, nil); !errors.Is(err, ErrInvalid) {
				t.Errorf("open: %v, want ErrInvalid", err)
				if err == nil {
					w.Abort()
				}
			}
			mustPut(t, running, seq(t, 4, 1)) // not fenced
			if n := len(rowsOf(t, mustOpen(t, store, nil))); n != 4 {
				t.Errorf("%d rows after reopen, want 4", n)
			}
		})
	}
}

// TestR15_ValuesThatTheLogCannotCount puts a batch that spans next to nothing and
// has more child values than the reader of the log believes in.
func TestR15_ValuesThatTheLogCannotCount(t *testing.T) {
	const rows, width = 1 << 20, 1 << 21
	typ := arrow.FixedSizeListOf(width, arrow.Null)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ, Nullable: true}}, nil)
	child := array.NewNull(rows * width)
	data := array.NewData(typ, rows, []*memory.Buffer{nil}, []arrow.ArrayData{child.Data()}, 0, 0)
	rec := array.NewRecordBatch(schema, []arrow.Array{array.MakeFromData(data)}, rows)

	store := objstore.NewMemory()
	w, err := Open(t.Context(), store, testShard, schema, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(t.Context(), rec); !errors.Is(err, ErrInvalid) {
		t.Errorf("put: %v, want ErrInvalid", err)
	}
	mustClose(t, w)
	if w, err = Open(t.Context(), store, testShard, schema, nil); err != nil {
		t.Fatalf("reopen: %v", err)
	}
	w.Abort()
}

// TestF12_SlowStoreIsNotCheckedForEver puts after a pause on a store whose
// ownership check takes longer than a proof is trusted.
func TestF12_SlowStoreIsNotCheckedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w, err := Open(t.Context(), store, testShard, testSchema, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		time.Sleep(time.Minute)
		store.on("", "", always, delay(11*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := w.Put(ctx, seq(t, 1, 1)); err != nil {
			t.Errorf("put: %v after %d checks", err, w.Stats().WAL.OwnershipChecks)
		}
	})
}

// TestF06_PeerCreatesTheShardMeanwhile has two first opens of one shard: what the
// peer has put by then is no log without a manifest.
func TestF06_PeerCreatesTheShardMeanwhile(t *testing.T) {
	shared := objstore.NewMemory()
	slow := over(shared)
	do, release := hold()
	reached := make(chan struct{})
	slow.on(objstore.OpList, "/wal/", 1, func(ctx context.Context, apply func() error) error {
		close(reached)
		return do(ctx, apply)
	})
	type result struct {
		w   *Writer
		err error
	}
	opened := make(chan result)
	go func() {
		w, err := Open(context.Background(), slow, testShard, testSchema, nil)
		opened <- result{w, err}
	}()
	<-reached
	first := mustOpen(t, shared, nil)
	mustPut(t, first, seq(t, 1, 3))
	release()
	r := <-opened
	if r.err != nil {
		t.Fatalf("open beside a peer: %v", r.err)
	}
	defer r.w.Abort()
	if n := len(rowsOf(t, r.w)); n != 3 {
		t.Errorf("%d rows, want the peer's 3", n)
	}
}

// TestC03_SealIsCheckedLikeOpen seals what is no place for a shard.
func TestC03_SealIsCheckedLikeOpen(t *testing.T) {
	for _, change := range []func(context.Context, objstore.Store, [16]byte) error{
		func(ctx context.Context, s objstore.Store, id [16]byte) error { return SealShard(ctx, s, id, nil) },
		func(ctx context.Context, s objstore.Store, id [16]byte) error { return UnsealShard(ctx, s, id, nil) },
	} {
		for name, err := range map[string]error{
			"nil store":   change(t.Context(), nil, testShard),
			"nil shard":   change(t.Context(), objstore.NewMemory(), [16]byte{}),
			"empty store": change(t.Context(), objstore.NewMemory(), testShard),
		} {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
	}
}

// TestG07_CloseIsNotHeldUpByItsRecord closes on a store that takes rows, but
// never says whether a manifest version was applied.
func TestG07_CloseIsNotHeldUpByItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTestStore()
		w, err := Open(t.Context(), store, testShard, testSchema, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, w, seq(t, 1, 1))
		store.on(objstore.OpPutIfAbsent, "/manifest/", always, func(context.Context, func() error) error {
			return objstore.ErrAmbiguous
		})
		start := time.Now()
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("close took %v", took)
		}
	})
}
