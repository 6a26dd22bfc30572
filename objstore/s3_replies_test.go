package objstore_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

func TestS01_RepliesHaveTheirClass(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault objstoretest.S3Fault
		want  error // nil: of no class
		maybe bool  // may have been applied
		retry bool
	}{
		{"412", objstoretest.S3Fault{Status: http.StatusPreconditionFailed, Code: "PreconditionFailed"}, objstore.ErrExists, false, false},
		{"409", objstoretest.S3Fault{Status: http.StatusConflict, Code: "ConditionalRequestConflict"}, objstore.ErrConflict, false, true},
		{"429", objstoretest.S3Fault{Status: http.StatusTooManyRequests, Code: "TooManyRequests"}, objstore.ErrThrottled, false, true},
		{"503", objstoretest.S3Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}, objstore.ErrThrottled, false, true},
		{"500", objstoretest.S3Fault{Status: http.StatusInternalServerError, Code: "InternalError"}, objstore.ErrAmbiguous, true, true},
		{"500 after it was applied", objstoretest.S3Fault{After: true, Status: http.StatusInternalServerError, Code: "InternalError"}, objstore.ErrAmbiguous, true, true},
		{"403", objstoretest.S3Fault{Status: http.StatusForbidden, Code: "AccessDenied"}, objstore.ErrPermission, false, false},
		{"reset", objstoretest.S3Fault{Reset: true}, objstore.ErrAmbiguous, true, true},
		{"reset after it was applied", objstoretest.S3Fault{After: true, Reset: true}, objstore.ErrAmbiguous, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s3 := objstoretest.StartS3(t)
			s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return tc.fault }
			s := s3.Store("")
			defer s.Close()
			_, err := s.PutIfAbsent(t.Context(), "k", objstore.Body{[]byte("body")})
			if !errors.Is(err, tc.want) {
				t.Errorf("error is %v, want %v", err, tc.want)
			}
			if got := objstore.MaybeApplied(err); got != tc.maybe {
				t.Errorf("may have been applied: %t, want %t (%v)", got, tc.maybe, err)
			}
			if got := objstore.Retryable(err); got != tc.retry {
				t.Errorf("retryable: %t, want %t (%v)", got, tc.retry, err)
			}
		})
	}
}

func TestS01_TimeoutIsAmbiguous(t *testing.T) {
	s3 := objstoretest.StartS3(t)
	s3.Fault = func(objstoretest.S3Request) objstoretest.S3Fault { return objstoretest.S3Fault{Delay: time.Minute} }
	s := s3.Store("")
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.PutIfAbsent(ctx, "k", objstore.Body{[]byte("body")}); !objstore.MaybeApplied(err) {
		t.Errorf("a put that timed out: %v, want it to be ambiguous", err)
	}
}
