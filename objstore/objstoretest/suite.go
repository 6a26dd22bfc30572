package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// Run runs the conformance suite. open returns an empty store for each part; the
// part closes it. The parts run one after the other.
func Run(t *testing.T, open func(t *testing.T) objstore.Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, objstore.Store)
	}{
		{"GetReturnsWhatWasPut", testRoundTrip},
		{"GetOwnsItsSlice", testOwnership},
		{"GetRange", testRange},
		{"AbsentObjects", testAbsent},
		{"S01_SecondPutSaysExists", testExists},
		{"S02_ProbeAcceptsTheStore", testProbe},
		{"S03_OneWinnerOnEveryKey", testOneWinner},
		{"PutReplaces", testReplace},
		{"DeleteThenCreate", testDelete},
		{"S04_ListFindsEverythingBelowAPrefix", testList},
		{"S04_ListFollowsPages", testListPages},
		{"ListStopsEarly", testListStops},
		{"BadKeys", testBadKeys},
		{"OddKeys", testOddKeys},
		{"CancelledContext", testCancelled},
		{"Clocks", testClocks},
	} {
		t.Run(part.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}()
			part.run(t, s)
		})
	}
}

// bodies are contents in the shapes that matter: empty, of one slice, of many
// with empty ones between, larger than any buffer.
func bodies() map[string]objstore.Body {
	big := make([]byte, 3<<20+17)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range big {
		big[i] = byte(rng.Uint32())
	}
	many := objstore.Body{nil, {}, []byte("x")}
	for i := range 300 {
		many = append(many, big[i*i:i*i+i], nil)
	}
	return map[string]objstore.Body{
		"nil": nil, "empty": {{}}, "one": {[]byte("hello")}, "many": many,
		"big": {big[:5], big[5 : 1<<20], big[1<<20:]},
	}
}

func testRoundTrip(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	for name, body := range bodies() {
		for _, conditional := range []bool{true, false} {
			key := fmt.Sprintf("round/%s/%v.bin", name, conditional)
			if conditional {
				mustPut(t, s, key, body)
			} else if err := s.Put(ctx, key, body); err != nil {
				t.Fatalf("Put %s: %v", key, err)
			}
			want := body.Bytes()
			expect(t, s, key, want)
			o, err := s.Head(ctx, key)
			if err != nil || o.Key != key || o.Size != int64(len(want)) {
				t.Errorf("Head %s = %+v, %v; want size %d", key, o, err, len(want))
			}
		}
	}
}

func testOwnership(t *testing.T, s objstore.Store) {
	content := []byte("do not alias")
	mustPut(t, s, "own", objstore.Body{content})
	copy(content, "XXXXXXXXXXXX")
	got := expect(t, s, "own", []byte("do not alias"))
	copy(got, "YYYYYYYYYYYY")
	expect(t, s, "own", []byte("do not alias"))
}

func testRange(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	data := []byte("0123456789")
	mustPut(t, s, "range", objstore.Body{data[:4], data[4:]})
	mustPut(t, s, "range-empty", nil)
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 10, "0123456789"}, {0, 1, "0"}, {3, 4, "3456"}, {9, 1, "9"}, {5, 100, "56789"}, {1, 1<<63 - 1, "123456789"}} {
		got, err := s.GetRange(ctx, "range", c.offset, c.length)
		if err != nil || string(got) != c.want {
			t.Errorf("GetRange(%d, %d) = %q, %v; want %q", c.offset, c.length, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{-1, 1}, {0, 0}, {0, -1}, {10, 1}, {11, 5}} {
		if got, err := s.GetRange(ctx, "range", c[0], c[1]); !errors.Is(err, objstore.ErrInvalid) {
			t.Errorf("GetRange(%d, %d) = %q, %v; want ErrInvalid", c[0], c[1], got, err)
		}
	}
	if got, err := s.GetRange(ctx, "range-empty", 0, 1); !errors.Is(err, objstore.ErrInvalid) {
		t.Errorf("GetRange of an empty object = %q, %v; want ErrInvalid", got, err)
	}
}

func testAbsent(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	mustPut(t, s, "there/a", nil)
	for _, key := range []string{"absent", "there/b", "there", "not/there"} {
		if _, err := s.Get(ctx, key); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Get %s: %v, want ErrNotExist", key, err)
		}
		if _, err := s.GetRange(ctx, key, 0, 1); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("GetRange %s: %v, want ErrNotExist", key, err)
		}
		if _, err := s.Head(ctx, key); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Head %s: %v, want ErrNotExist", key, err)
		}
	}
	for _, key := range []string{"absent", "there/b", "not/there"} {
		if err := s.Delete(ctx, key); err != nil {
			t.Errorf("Delete %s: %v, want no error", key, err)
		}
	}
	expect(t, s, "there/a", nil)
}

func testExists(t *testing.T, s objstore.Store) {
	mustPut(t, s, "dir/once", objstore.Body{[]byte("first")})
	for _, body := range []string{"second", "first", ""} {
		_, err := s.PutIfAbsent(t.Context(), "dir/once", objstore.Body{[]byte(body)})
		if !errors.Is(err, objstore.ErrExists) || objstore.MaybeApplied(err) || objstore.Retryable(err) {
			t.Errorf("second PutIfAbsent: %v; want ErrExists, which is definite", err)
		}
		if e, ok := errors.AsType[*objstore.Error](err); !ok || e.Op != objstore.OpPutIfAbsent || !strings.HasSuffix(e.Key, "dir/once") {
			t.Errorf("the error does not say what failed where: %#v", err)
		}
	}
	expect(t, s, "dir/once", []byte("first"))
}

func testProbe(t *testing.T, s objstore.Store) {
	for range 3 {
		if err := objstore.Probe(t.Context(), s, "probe/key"); err != nil {
			t.Fatalf("Probe: %v", err)
		}
	}
}

// testOneWinner has several writers race for every key of a sequence, as
// writers of a log do.
func testOneWinner(t *testing.T, s objstore.Store) {
	const writers, keys = 8, 20
	for k := range keys {
		key := fmt.Sprintf("race/%d/%d", k%3, k)
		var wins atomic.Int32
		var winner atomic.Pointer[string]
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range writers {
			wg.Go(func() {
				content := fmt.Sprintf("writer %d %s", w, strings.Repeat("x", 1000*w))
				<-start
				_, err := s.PutIfAbsent(t.Context(), key, objstore.Body{[]byte(content)})
				switch {
				case err == nil:
					wins.Add(1)
					winner.Store(&content)
				case errors.Is(err, objstore.ErrExists):
				case errors.Is(err, objstore.ErrConflict): // allowed, and nothing was applied
				default:
					t.Errorf("writer %d, %s: %v", w, key, err)
				}
			})
		}
		close(start)
		wg.Wait()
		if n := wins.Load(); n != 1 {
			t.Fatalf("%s: %d winners, want 1", key, n)
		}
		expect(t, s, key, []byte(*winner.Load()))
	}
}

func testReplace(t *testing.T, s objstore.Store) {
	for _, content := range []string{"one", "", "a longer third one"} {
		if err := s.Put(t.Context(), "hints/h", objstore.Body{[]byte(content)}); err != nil {
			t.Fatalf("Put: %v", err)
		}
		expect(t, s, "hints/h", []byte(content))
	}
	if keys := list(t, s, ""); !slices.Equal(keys, []string{"hints/h"}) {
		t.Errorf("List = %q; replacing must leave nothing else behind", keys)
	}
}

func testDelete(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	for i := range 3 {
		mustPut(t, s, "log/1", objstore.Body{[]byte{byte(i)}})
		if err := s.Delete(ctx, "log/1"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
		if _, err := s.Get(ctx, "log/1"); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("Get after Delete: %v, want ErrNotExist", err)
		}
	}
	if keys := list(t, s, ""); len(keys) != 0 {
		t.Errorf("List after Delete = %q", keys)
	}
}

func testList(t *testing.T, s objstore.Store) {
	all := []string{"a/1", "a/2", "a/b/1", "a/b/c/1", "ab/1", "b", "a-1", "z/a/1"}
	for _, key := range all {
		mustPut(t, s, key, objstore.Body{[]byte(key)})
	}
	for prefix, want := range map[string][]string{
		"": all, "a": {"a/1", "a/2", "a/b/1", "a/b/c/1", "ab/1", "a-1"},
		"a/": {"a/1", "a/2", "a/b/1", "a/b/c/1"}, "a/b": {"a/b/1", "a/b/c/1"}, "a/b/": {"a/b/1", "a/b/c/1"},
		"b": {"b"}, "b/": nil, "c": nil, "z/a/1": {"z/a/1"}, "z/a/1/": nil, "../": nil, "//": nil, "a//": nil,
	} {
		got := list(t, s, prefix)
		want = slices.Sorted(slices.Values(want))
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
	for o, err := range s.List(t.Context(), "") {
		if err != nil || o.Size != int64(len(o.Key)) || o.Modified.IsZero() {
			t.Errorf("List yields %+v, %v", o, err)
		}
	}
	if got := list(t, objstore.Prefix(s, "a/b"), ""); !slices.Equal(got, []string{"1", "c/1"}) {
		t.Errorf("List of the view below a/b = %q", got)
	}
}

// testListPages lists more than the thousand objects that fit into one page of the
// usual services.
func testListPages(t *testing.T, s objstore.Store) {
	const n = 1003
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < n; i += 4 {
				key := fmt.Sprintf("many/%03d/%d", i%7, i)
				if _, err := s.PutIfAbsent(t.Context(), key, objstore.Body{[]byte("x")}); err != nil {
					t.Errorf("PutIfAbsent %s: %v", key, err)
				}
			}
		})
	}
	wg.Wait()
	mustPut(t, s, "more", nil)
	keys := list(t, s, "many/")
	if len(keys) != n || len(slices.Compact(keys)) != n {
		t.Errorf("List found %d objects, %d of them distinct, want %d", len(keys), len(slices.Compact(keys)), n)
	}
}

func testListStops(t *testing.T, s objstore.Store) {
	for i := range 5 {
		mustPut(t, s, fmt.Sprintf("stop/%d", i), nil)
	}
	seq := s.List(t.Context(), "stop/")
	for range 2 { // the sequence can be used again
		n := 0
		for _, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d objects before the break, want 2", n)
		}
	}
}

func testBadKeys(t *testing.T, s objstore.Store) {
	ctx := t.Context()
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../../b", "a/./b", "a/..", `a\b`, `..\a`,
		"a\x00b", "a\nb", "\x7f", "\xff\xfe", strings.Repeat("k", 256), strings.Repeat("abc/", 200) + "x",
	} {
		_, err := s.PutIfAbsent(ctx, key, nil)
		_, getErr := s.Get(ctx, key)
		_, rangeErr := s.GetRange(ctx, key, 0, 1)
		_, headErr := s.Head(ctx, key)
		for op, err := range map[string]error{"PutIfAbsent": err, "Put": s.Put(ctx, key, nil), "Get": getErr,
			"GetRange": rangeErr, "Head": headErr, "Delete": s.Delete(ctx, key)} {
			if !errors.Is(err, objstore.ErrInvalid) {
				t.Errorf("%s %.40q: %v, want ErrInvalid", op, key, err)
			}
		}
	}
	if keys := list(t, s, ""); len(keys) != 0 {
		t.Errorf("bad keys left objects: %q", keys)
	}
}

// testOddKeys uses what is allowed, but special to URLs, shells or XML.
func testOddKeys(t *testing.T, s objstore.Store) {
	odd := []string{"with space", "per%cent", "pl+us", "a&b<c>'d'", "ünïcödé/キー", "q?x=1#frag", ".hidden", "...", "a/-b",
		"dots.in.name", "tilde~", "co:lon", "star*", "%2e%2e/x", strings.Repeat("l", 200) + "/" + strings.Repeat("m", 200)}
	for _, key := range odd {
		mustPut(t, s, key, objstore.Body{[]byte(key)})
	}
	for _, key := range odd {
		expect(t, s, key, []byte(key))
		if got := list(t, s, key); !slices.Equal(got, []string{key}) {
			t.Errorf("List(%q) = %q", key, got)
		}
	}
	if got, want := list(t, s, ""), slices.Sorted(slices.Values(odd)); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
}

func testCancelled(t *testing.T, s objstore.Store) {
	mustPut(t, s, "c", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := s.Get(ctx, "c")
	_, headErr := s.Head(ctx, "c")
	_, putErr := s.PutIfAbsent(ctx, "d", nil)
	var listErr error
	for _, err := range s.List(ctx, "") {
		listErr = err
	}
	for op, err := range map[string]error{"Get": getErr, "Head": headErr, "PutIfAbsent": putErr,
		"Put": s.Put(ctx, "d", nil), "Delete": s.Delete(ctx, "c"), "List": listErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v, want context.Canceled", op, err)
		}
		if errors.Is(err, objstore.ErrNotExist) || errors.Is(err, objstore.ErrExists) {
			t.Errorf("%s with a cancelled context claims to know: %v", op, err)
		}
	}
}

func testClocks(t *testing.T, s objstore.Store) {
	const skew = 5 * time.Minute
	res := mustPut(t, s, "clock", nil)
	now := time.Now()
	if !res.Date.IsZero() && res.Date.Sub(now).Abs() > skew {
		t.Errorf("Date of the put is %v, now is %v", res.Date, now)
	}
	o, err := s.Head(t.Context(), "clock")
	if err != nil || o.Modified.Sub(now).Abs() > skew {
		t.Errorf("Head: modified %v, %v; now is %v", o.Modified, err, now)
	}
}

func mustPut(t *testing.T, s objstore.Store, key string, body objstore.Body) objstore.PutResult {
	t.Helper()
	res, err := s.PutIfAbsent(t.Context(), key, body)
	if err != nil {
		t.Fatalf("PutIfAbsent %s: %v", key, err)
	}
	return res
}

func expect(t *testing.T, s objstore.Store, key string, want []byte) []byte {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get %s: %v", key, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("Get %s = %d bytes %.50q, want %d bytes %.50q", key, len(got), got, len(want), want)
	}
	return got
}

// list returns the sorted keys.
func list(t *testing.T, s objstore.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for o, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("List(%q): %v", prefix, err)
		}
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	return keys
}
