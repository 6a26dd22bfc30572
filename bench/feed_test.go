package main

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func mixedInput(t testing.TB, key ...string) *input {
	return &input{source: &listSource{[]arrow.RecordBatch{mixedBatch(t, 10, 5), mixedBatch(t, 15, 5), mixedBatch(t, 20, 2)}}, key: key, unique: true}
}

// feeds prepares the same input once within the budget and once beyond it.
func feeds(t *testing.T, repeat bool, key ...string) map[string]feed {
	t.Helper()
	m := map[string]feed{}
	for name, budget := range map[string]int64{"cached": 1 << 30, "stream": 1} {
		f, err := prepare(mixedInput(t, key...), repeat, budget)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.close)
		if all, bytes := f.ahead(); all != (name == "cached") || bytes <= 0 {
			t.Errorf("%s: prepared all: %v, %d bytes", name, all, bytes)
		}
		m[name] = f
	}
	return m
}

func TestFeedOnePass(t *testing.T) {
	for name, f := range feeds(t, false, "n") {
		var got []arrow.RecordBatch
		var row int64
		for {
			it, ok, err := f.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if it.firstRow != row || it.bytes <= 0 {
				t.Errorf("%s: batch %d begins at row %d and has %d bytes", name, len(got), it.firstRow, it.bytes)
			}
			row += it.rec.NumRows()
			got = append(got, it.rec)
		}
		if !array.RecordEqual(joinAll(t, got), mixedBatch(t, 10, 12)) {
			t.Errorf("%s: other rows", name)
		}
	}
}

// Repeated passes have new keys in the same order and are otherwise the same;
// replay yields them again.
func TestFeedRepeats(t *testing.T) {
	for name, f := range feeds(t, true, "n") {
		var got []arrow.RecordBatch
		for range 8 { // of 3 batches a pass
			it, ok, err := f.next()
			if err != nil || !ok {
				t.Fatalf("%s: %v, %v", name, ok, err)
			}
			got = append(got, it.rec)
		}
		all := joinAll(t, got)
		for i, v := range all.Column(0).(*array.Int64).Int64Values() {
			if v != int64(10+i) {
				t.Fatalf("%s: row %d has key %d", name, i, v)
			}
		}
		if again := all.NewSlice(12, 24).Column(1); !array.Equal(again, all.NewSlice(0, 12).Column(1)) {
			t.Errorf("%s: the second pass has other values", name)
		}
		var replayed []arrow.RecordBatch
		for rec, err := range f.replay(8) {
			if err != nil {
				t.Fatal(err)
			}
			replayed = append(replayed, rec)
		}
		if len(replayed) != 8 || !array.RecordEqual(joinAll(t, replayed), all) {
			t.Errorf("%s: replay differs", name)
		}
	}
}

func TestFeedRepeatsWithoutKey(t *testing.T) {
	for name, f := range feeds(t, true) {
		for range 7 {
			if _, ok, err := f.next(); !ok || err != nil {
				t.Fatalf("%s: %v, %v", name, ok, err)
			}
		}
	}
}

func TestFeedRejected(t *testing.T) {
	_, err := prepare(mixedInput(t, "s"), true, 1<<30)
	if _, ok := errors.AsType[*usageError](err); !ok {
		t.Errorf("new string keys: %v", err)
	}
	empty := &rebatched{source: &listSource{[]arrow.RecordBatch{mixedBatch(t, 0, 0)}}, batch: 5}
	_, err = prepare(&input{source: empty}, false, 1<<30)
	if _, ok := errors.AsType[*usageError](err); !ok {
		t.Errorf("no rows: %v", err)
	}
}

func TestShifterOverflow(t *testing.T) {
	rec := fromJSON(t, arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil), `{"n":-4611686018427387904}`, `{"n":4611686018427387904}`)
	in := &input{source: &listSource{[]arrow.RecordBatch{rec}}, key: []string{"n"}}
	f, err := prepare(in, true, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := f.next(); !ok || err != nil {
		t.Fatalf("first pass: %v, %v", ok, err)
	}
	if _, ok, err := f.next(); ok || err == nil {
		t.Errorf("second pass: %v, %v", ok, err)
	}
}

func TestAdded(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	for _, tc := range []struct{ rows, want []string }{
		{[]string{`{"n":9}`, `{"n":1}`, `{"n":-2}`}, []string{`{"n":11}`, `{"n":8}`}},
		{[]string{`{"n":9}`, `{"n":null}`, `{"n":3}`}, []string{`{"n":null}`, `{"n":13}`}},
	} {
		col := fromJSON(t, schema, tc.rows...).NewSlice(1, 3).Column(0).(*array.Int64)
		if got, want := added(col, 10), fromJSON(t, schema, tc.want...).Column(0); !array.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
