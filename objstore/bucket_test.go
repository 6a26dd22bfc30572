package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"

	"github.com/memwal/memwal-go/objstore"
)

// fakeBucket is a driver of the Go CDK that answers as told. Where replies is
// OK, it takes every put, whatever its condition.
type fakeBucket struct {
	driver.Bucket // what is not used

	replies gcerrors.ErrorCode
	pages   [][]string
	writes  int
}

type codeError struct{ code gcerrors.ErrorCode }

func (e codeError) Error() string { return "the driver says " + e.code.String() }

func (b *fakeBucket) reply() error {
	if b.replies == gcerrors.OK {
		return nil
	}
	return codeError{b.replies}
}

func (b *fakeBucket) ErrorCode(err error) gcerrors.ErrorCode {
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	return gcerrors.Unknown
}

func (b *fakeBucket) ErrorAs(error, any) bool { return false }

func (b *fakeBucket) Close() error { return nil }

func (b *fakeBucket) Attributes(context.Context, string) (*driver.Attributes, error) {
	return &driver.Attributes{}, b.reply()
}

func (b *fakeBucket) Delete(context.Context, string, *driver.DeleteOptions) error { return b.reply() }

func (b *fakeBucket) NewRangeReader(context.Context, string, int64, int64, *driver.ReaderOptions) (driver.Reader, error) {
	return nil, codeError{b.replies}
}

func (b *fakeBucket) NewTypedWriter(context.Context, string, string, *driver.WriterOptions) (driver.Writer, error) {
	return fakeWriter{b}, nil
}

type fakeWriter struct{ b *fakeBucket }

func (w fakeWriter) Write(p []byte) (int, error) { return len(p), nil }

func (w fakeWriter) Close() error {
	w.b.writes++
	return w.b.reply()
}

func (b *fakeBucket) ListPaged(_ context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	i := 0
	if len(o.PageToken) > 0 {
		i = int(o.PageToken[0])
	}
	page := &driver.ListPage{}
	for _, key := range b.pages[i] {
		page.Objects = append(page.Objects, &driver.ListObject{Key: key, Size: int64(i), ModTime: time.Unix(1, 0), IsDir: strings.HasSuffix(key, "/")})
	}
	if i++; i < len(b.pages) {
		page.NextPageToken = []byte{byte(i)}
	}
	return page, nil
}

func TestS01_BucketRepliesHaveTheirClass(t *testing.T) {
	for code, want := range map[gcerrors.ErrorCode]struct {
		put, read    error // nil: of no class
		maybe, again bool  // of the put
	}{
		gcerrors.AlreadyExists:      {put: objstore.ErrExists},
		gcerrors.FailedPrecondition: {put: objstore.ErrExists},
		gcerrors.ResourceExhausted:  {put: objstore.ErrThrottled, read: objstore.ErrThrottled, again: true},
		gcerrors.NotFound:           {put: objstore.ErrUnusable, read: objstore.ErrNotExist},
		gcerrors.PermissionDenied:   {put: objstore.ErrPermission, read: objstore.ErrPermission},
		gcerrors.InvalidArgument:    {put: objstore.ErrInvalid, read: objstore.ErrInvalid},
		gcerrors.Unimplemented:      {put: objstore.ErrUnusable, read: objstore.ErrUnusable},
		gcerrors.Unknown:            {put: objstore.ErrAmbiguous, maybe: true, again: true},
		gcerrors.Internal:           {put: objstore.ErrAmbiguous, maybe: true, again: true},
		gcerrors.DeadlineExceeded:   {put: objstore.ErrAmbiguous, maybe: true, again: true},
	} {
		t.Run(code.String(), func(t *testing.T) {
			b := blob.NewBucket(&fakeBucket{replies: code})
			defer b.Close()
			s := objstore.NewBucket(b, "")
			_, err := s.PutIfAbsent(t.Context(), "k", body)
			if !errors.Is(err, want.put) || objstore.MaybeApplied(err) != want.maybe || objstore.Retryable(err) != want.again {
				t.Errorf("put: %v, may have been applied: %t, retryable: %t", err, objstore.MaybeApplied(err), objstore.Retryable(err))
			}
			_, head := s.Head(t.Context(), "k")
			_, get := s.Get(t.Context(), "k")
			for _, err := range []error{head, get} {
				if err == nil || want.read != nil && !errors.Is(err, want.read) || (code != gcerrors.NotFound) == errors.Is(err, objstore.ErrNotExist) {
					t.Errorf("read: %v, want %v", err, want.read)
				}
			}
			if err := s.Delete(t.Context(), "k"); (code == gcerrors.NotFound) != (err == nil) || errors.Is(err, objstore.ErrExists) {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// TestS05_BucketSendsOnce: whatever the driver replies, a put is one put.
func TestS05_BucketSendsOnce(t *testing.T) {
	for _, code := range []gcerrors.ErrorCode{gcerrors.OK, gcerrors.Unknown, gcerrors.ResourceExhausted, gcerrors.FailedPrecondition} {
		fake := &fakeBucket{replies: code}
		b := blob.NewBucket(fake)
		defer b.Close()
		_, err := objstore.NewBucket(b, "").PutIfAbsent(t.Context(), "k", body)
		if (err == nil) != (code == gcerrors.OK) || fake.writes != 1 {
			t.Errorf("%v: %v after %d puts", code, err, fake.writes)
		}
	}
}

func TestS02_BucketThatIgnoresTheCondition(t *testing.T) {
	b := blob.NewBucket(&fakeBucket{})
	defer b.Close()
	if err := objstore.Probe(t.Context(), objstore.NewBucket(b, "log"), "probe"); !errors.Is(err, objstore.ErrConditionIgnored) {
		t.Errorf("Probe: %v", err)
	}
}

// TestS04_BucketListing: pages in no order, empty ones between, foreign keys.
func TestS04_BucketListing(t *testing.T) {
	b := blob.NewBucket(&fakeBucket{pages: [][]string{{"z/2", "z/"}, {}, {"z/1", "z//x", "z/../y", "z/ctrl\x01"}, {}, {"z/0", "z"}}})
	defer b.Close()
	var got []string
	for o, err := range objstore.NewBucket(b, "").List(t.Context(), "z") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(o.Key, " ", o.Size))
	}
	if want := []string{"z/2 0", "z/1 2", "z/0 4", "z 4"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}
