package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/memwal/memwal-go/objstore"
)

// sdkPuts is an S3 store whose conditional puts go straight to the SDK, as those
// of objstore do but for the checksum, which is not computed but taken from the
// context. Other requests are those of the store within.
type sdkPuts struct {
	objstore.Store
	client *s3.Client
	bucket string
	prefix string // with a slash at its end, unless it is empty
	opts   []func(*s3.Options)
}

// newSDKPuts puts with client, which must be one of objstore.NewS3Client, or set
// up as that is. With sign, the signature covers bodies, as it does with
// objstore's SignPayload; then they are hashed while they are put.
func newSDKPuts(s objstore.Store, client *s3.Client, bucket, prefix string, sign bool) *sdkPuts {
	p := &sdkPuts{Store: s, client: client, bucket: bucket}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		p.prefix = prefix + "/"
	}
	if !sign {
		p.opts = append(p.opts, func(o *s3.Options) {
			o.APIOptions = append(o.APIOptions[:len(o.APIOptions):len(o.APIOptions)], v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
		})
	}
	return p
}

func (s *sdkPuts) PutIfAbsent(ctx context.Context, key string, body objstore.Body) (objstore.PutResult, error) {
	sum, _ := ctx.Value(checksumKey{}).(string)
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket:         &s.bucket,
		Key:            aws.String(s.prefix + key),
		Body:           body.NewReader(),
		ContentLength:  aws.Int64(body.Len()),
		ContentType:    aws.String("application/octet-stream"),
		ChecksumCRC32C: &sum,
		IfNoneMatch:    aws.String("*"),
	}, s.opts...)
	if err != nil {
		return objstore.PutResult{}, fmt.Errorf("put %s: %w", key, err)
	}
	return objstore.PutResult{}, nil
}

// checksum is the value of S3's CRC32C header for body.
func checksum(body objstore.Body) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, body.CRC32C()))
}

// openSDKPuts makes the client of an s3 URL once more, as objstore.Open, which
// has accepted the URL, does.
func openSDKPuts(ctx context.Context, s objstore.Store, rawURL string) (*sdkPuts, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, &usageError{fmt.Errorf("-store: %w", err)}
	}
	q := u.Query()
	yes := func(name string) bool { v, _ := strconv.ParseBool(q.Get(name)); return v }
	opts := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(objstore.NewHTTPClient())}
	if p := q.Get("profile"); p != "" {
		opts = append(opts, awsconfig.WithSharedConfigProfile(p))
	}
	if r := q.Get("region"); r != "" {
		opts = append(opts, awsconfig.WithRegion(r))
	} else if q.Get("endpoint") != "" {
		opts = append(opts, awsconfig.WithDefaultRegion("us-east-1"))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration for the baseline: %w", err)
	}
	client := objstore.NewS3Client(cfg, func(o *s3.Options) {
		o.UsePathStyle = yes("use_path_style")
		if e := q.Get("endpoint"); e != "" {
			o.BaseEndpoint = &e
		}
	})
	return newSDKPuts(s, client, u.Host, u.Path, yes("sign_payload")), nil
}
