package objstore

import (
	"errors"
	"net"
	"net/http"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// s3Error classifies an error of the S3 client; nil stays nil.
func s3Error(op Op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Key: key, Err: err}
	var code string
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && resp.HTTPStatusCode() >= 300 {
		e.Class, e.MaybeApplied = s3Class(resp.HTTPStatusCode(), code)
		return e
	}
	e.Class = sendClass(err)
	return e
}

// s3Class classifies a reply by its status and the code in its body, which is
// empty for replies of proxies and to Head. A nil class is a passing failure
// that certainly was not applied, or one that says nothing.
func s3Class(status int, code string) (class error, maybeApplied bool) {
	switch {
	case code == "NoSuchBucket":
		return ErrUnusable, false
	case status == http.StatusNotFound:
		return ErrNotExist, false
	case status == http.StatusPreconditionFailed:
		return ErrExists, false
	case status == http.StatusConflict:
		return ErrConflict, false
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ErrPermission, false
	case status == http.StatusTooManyRequests:
		return ErrThrottled, false
	case status == http.StatusServiceUnavailable:
		// SlowDown is a refusal. Under any other name 503 may come from a proxy
		// that has passed the request on, or from a service whose write reached
		// some of its drives.
		return ErrThrottled, code != "SlowDown"
	case status == http.StatusNotImplemented:
		return ErrUnusable, false // "a header you provided implies functionality …"
	case status >= 500 || status == http.StatusRequestTimeout:
		return ErrAmbiguous, true
	case status == http.StatusBadRequest && code == "RequestTimeout":
		// The service waited in vain for the rest of the body.
		return ErrAmbiguous, true
	case status == http.StatusBadRequest && (code == "BadDigest" || code == "XAmzContentChecksumMismatch" || code == "IncompleteBody"):
		return nil, false // damaged on the way: send it again
	case status == http.StatusBadRequest && (code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired"):
		return ErrPermission, false
	case status >= 400:
		return ErrInvalid, false
	default: // a redirect: another region or endpoint
		return ErrUnusable, false
	}
}

// sendClass classifies a failure to get any reply. Only a failed dial is known
// to have sent nothing; it has no class. Otherwise the request may have
// reached the service: timeouts, resets, replies that make no sense.
func sendClass(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return nil
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return ErrAmbiguous
	}
	if _, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return ErrAmbiguous
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return ErrInvalid
	}
	return ErrAmbiguous
}
