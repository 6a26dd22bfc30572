package objstore

import (
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// NewS3Client returns a client that is set up for [NewS3]: no retry of its own,
// and, unless cfg brings an HTTP client, [NewHTTPClient]. Later options win.
func NewS3Client(cfg aws.Config, opts ...func(*s3.Options)) *s3.Client {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = NewHTTPClient()
	}
	return s3.NewFromConfig(cfg, append([]func(*s3.Options){once}, opts...)...)
}

// NewHTTPClient returns an HTTP client for several puts of megabytes at once:
//
//   - Idle connections are kept for every put that may be in flight. Of Go's
//     default of two for each host, the third and fourth put would open a new
//     connection, with its handshakes and slow start, each time.
//   - Large buffers, so that a body goes out in few system calls.
//   - HTTP/1.1 only: all streams of HTTP/2 share one connection, hence one
//     window and one loss of a packet; and its client may send a request again when
//     a connection is shut down.
//   - No compression: the bodies are compressed already, or not meant to be.
//
// The client itself never sends a put twice once a byte of it went out.
func NewHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns = 0 // no limit over all hosts
		t.MaxIdleConnsPerHost = 64
		t.IdleConnTimeout = 60 * time.Second
		t.DisableCompression = true
		t.ForceAttemptHTTP2 = false
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
		t.WriteBufferSize = 256 << 10
		t.ReadBufferSize = 256 << 10
	})
}
