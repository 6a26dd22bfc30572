package objstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// S3Options are the options of [NewS3]. nil means the zero value.
type S3Options struct {
	// SignPayload makes the signature of each put cover its body, by SHA-256.
	//
	// By default it does not. Every put carries the CRC32C of its body in a
	// header that is signed, and the service refuses a body that does not
	// match: bit flips and truncation are caught on the way in. The one thing
	// that SHA-256 adds is protection from somebody who alters packets on the
	// way, and over https TLS gives that already. Over plain http such a person
	// could forge a body with the same CRC, or forge any reply; who uses plain
	// http trusts the network, and reads are not protected there with this
	// option either. What it costs is more than half of the CPU that a put
	// takes on our side: BenchmarkS3Put in objstoretest, 1.5 instead of 0.6 CPU
	// seconds a GB.
	//
	// Set it for services that refuse unsigned payloads by policy, and for
	// plain http where altered writes are a worse fear than altered reads.
	SignPayload bool
}

// s3Store is a Store over a bucket of an S3 service.
type s3Store struct {
	client *s3.Client
	bucket string
	prefix string
	sign   bool
	close  func()
}

// NewS3 returns a store over the part of the bucket below prefix ("" = all of
// it). The client stays the caller's; best is one of [NewS3Client]. Whatever
// the client's settings are, requests are sent once, without the SDK's retry: wrap
// the store in [WithRetry].
//
// The bucket must exist. If it is versioned, deleted objects stay as
// versions until a lifecycle rule of the bucket removes them.
//
// A missing bucket is ErrUnusable where the service says so; the reply to a Head
// has no room for that, so there it is ErrNotExist. [Probe] tells them apart.
func NewS3(client *s3.Client, bucket, prefix string, o *S3Options) Store {
	if o == nil {
		o = &S3Options{}
	}
	return &s3Store{client: client, bucket: bucket, prefix: cleanPrefix(prefix), sign: o.SignPayload, close: func() {}}
}

// once turns off the retry of the SDK. It applies to every operation, since
// WithRetry covers them all, with one bound; for conditional puts it is
// a must: a retry that we do not see turns a lost reply into a plain ErrExists.
// It also turns off the wait for "100 Continue" before large bodies: that
// is one more round trip for each put, to spare the body of the rare refused one.
func once(o *s3.Options) {
	o.Retryer = aws.NopRetryer{}
	o.RetryMaxAttempts = 1
	o.ContinueHeaderThresholdBytes = -1
	// Gets are not checked against stored checksums: what is stored carries its
	// own, and a range could not be checked anyway.
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
}

// unsigned leaves the body out of the signature.
func unsigned(o *s3.Options) {
	o.APIOptions = append(o.APIOptions[:len(o.APIOptions):len(o.APIOptions)], v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

func (s *s3Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkOp(OpGet, key); err != nil {
		return nil, err
	}
	return s.get(ctx, OpGet, key, nil)
}

func (s *s3Store) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	last := offset + length - 1
	if last < offset { // overflow
		last = 1<<63 - 1
	}
	data, err := s.get(ctx, OpGetRange, key, aws.String(fmt.Sprintf("bytes=%d-%d", offset, last)))
	if err == nil && len(data) == 0 { // some services ignore ranges of empty objects
		return nil, errBeyondEnd(key, offset, 0)
	}
	if err == nil && int64(len(data)) > length {
		return nil, &Error{Op: OpGetRange, Key: key, Class: ErrUnusable,
			Err: fmt.Errorf("asked for %d bytes, got %d: the service ignores ranges", length, len(data))}
	}
	return data, err
}

func (s *s3Store) get(ctx context.Context, op Op, key string, span *string) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: aws.String(s.prefix + key), Range: span,
	}, once)
	if err != nil {
		return nil, s3Error(op, key, err)
	}
	defer out.Body.Close()
	data, err := readBody(out.Body, aws.ToInt64(out.ContentLength))
	if err != nil {
		return nil, s3Error(op, key, fmt.Errorf("reading the body: %w", err))
	}
	return data, nil
}

// readBody reads a body of the size that its header announced, in one buffer.
// The HTTP client fails a body that ends early.
func readBody(r io.Reader, size int64) ([]byte, error) {
	data := make([]byte, max(0, size))
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	// Without an announced size the rest is still to come; otherwise this
	// reads the end, which makes the connection reusable.
	rest, err := io.ReadAll(r)
	return append(data, rest...), err
}

func (s *s3Store) Head(ctx context.Context, key string) (Object, error) {
	if err := checkOp(OpHead, key); err != nil {
		return Object{}, err
	}
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key)}, once)
	if err != nil {
		return Object{}, s3Error(OpHead, key, err)
	}
	return Object{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}, nil
}

func (s *s3Store) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if _, ok := prefixDir(prefix); !ok {
			return
		}
		// Keys come URL-encoded, or a foreign one with a control character
		// would make the whole page unreadable as XML.
		in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.prefix + prefix), EncodingType: types.EncodingTypeUrl}
		for {
			notePage(ctx)
			out, err := s.client.ListObjectsV2(ctx, in, once)
			if err != nil {
				yield(Object{}, s3Error(OpList, prefix, err))
				return
			}
			for i := range out.Contents {
				if o, ok := s.listed(&out.Contents[i], out.EncodingType); ok && !yield(o, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			next := aws.ToString(out.NextContinuationToken)
			if next == "" || next == aws.ToString(in.ContinuationToken) {
				// Stopping here, or going on for ever, would both be wrong.
				yield(Object{}, &Error{Op: OpList, Key: prefix,
					Err: fmt.Errorf("the listing is said to go on, but its next token is %q", next)})
				return
			}
			in.ContinuationToken = &next
		}
	}
}

// listed translates an element of a listing; ok is false for foreign keys that
// this package would refuse.
func (s *s3Store) listed(o *types.Object, encoding types.EncodingType) (_ Object, ok bool) {
	key := aws.ToString(o.Key)
	if encoding == types.EncodingTypeUrl {
		decoded, err := url.QueryUnescape(key)
		if err != nil {
			return Object{}, false
		}
		key = decoded
	}
	if len(key) <= len(s.prefix) || key[:len(s.prefix)] != s.prefix || keyFault(key[len(s.prefix):]) != "" {
		return Object{}, false
	}
	return Object{Key: key[len(s.prefix):], Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}, true
}

func (s *s3Store) PutIfAbsent(ctx context.Context, key string, body Body) (PutResult, error) {
	return s.put(ctx, OpPutIfAbsent, key, body)
}

func (s *s3Store) Put(ctx context.Context, key string, body Body) error {
	_, err := s.put(ctx, OpPut, key, body)
	return err
}

func (s *s3Store) put(ctx context.Context, op Op, key string, body Body) (PutResult, error) {
	if err := checkOp(op, key); err != nil {
		return PutResult{}, err
	}
	sum := binary.BigEndian.AppendUint32(nil, crcOf(ctx, body))
	in := &s3.PutObjectInput{
		Bucket:         &s.bucket,
		Key:            aws.String(s.prefix + key),
		Body:           body.NewReader(),
		ContentLength:  aws.Int64(body.Len()),
		ContentType:    aws.String(contentType),
		ChecksumCRC32C: aws.String(base64.StdEncoding.EncodeToString(sum)),
	}
	if op == OpPutIfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	opts := []func(*s3.Options){once}
	if !s.sign {
		opts = append(opts, unsigned)
	}
	out, err := s.client.PutObject(ctx, in, opts...)
	if err != nil {
		return PutResult{}, s3Error(op, key, err)
	}
	date, _ := awsmiddleware.GetServerTime(out.ResultMetadata)
	return PutResult{Date: date}, nil
}

func (s *s3Store) Delete(ctx context.Context, key string) error {
	if err := checkOp(OpDelete, key); err != nil {
		return err
	}
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key)}, once)
	if err = s3Error(OpDelete, key, err); errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// Close closes the idle connections, where the client was made for this store.
func (s *s3Store) Close() error {
	s.close()
	return nil
}
