package objstore

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
)

// Open opens the store that a URL names:
//
//	mem://                     a new store in memory
//	file:///dir                a local folder, durable; it is created if need be
//	s3://bucket/prefix         S3 and what speaks its protocol
//	anything else              gocloud.dev's opener of that scheme
//
// The parameters of s3 URLs, all optional:
//
//	endpoint=http://host:port  of another service than AWS
//	region=eu-west-1           default: the AWS configuration's, or us-east-1 with an endpoint
//	use_path_style=true        bucket in the path, not in the host name; most other services need it
//	sign_payload=true          see [S3Options]
//	profile=name               of the AWS configuration
//
// Credentials come from the usual places of AWS: environment, configuration
// files, instance roles. A URL never holds them.
//
// For gs:// and azblob:// import the package objstore/gcs or objstore/azure for
// its effect; the core does not link those clouds. A parameter prefix=… of the Go
// CDK's URLs names a part of a bucket.
//
// A URL that makes no sense is of class [ErrInvalid]. The caller closes the store.
func Open(ctx context.Context, rawURL string) (Store, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("objstore: open: %w: %w", ErrInvalid, err)
	}
	var s Store
	switch u.Scheme {
	case "":
		err = fmt.Errorf("%w: the URL has no scheme, such as file:// or s3://", ErrInvalid)
	case "mem":
		s, err = openMemory(u)
	case "file":
		s, err = openFolder(u)
	case "s3":
		s, err = openS3(ctx, u)
	default:
		s, err = openOther(ctx, rawURL, u)
	}
	if err != nil {
		return nil, fmt.Errorf("objstore: open %s: %w", u.Redacted(), err)
	}
	return s, nil
}

func openMemory(u *url.URL) (Store, error) {
	if u.Host != "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: a store in memory has no name: use mem://", ErrInvalid)
	}
	return NewMemory(), nil
}

func openFolder(u *url.URL) (Store, error) {
	switch {
	case u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("%w: %q stands where a host would: an absolute path has three slashes, file:///%s%s", ErrInvalid, u.Host, u.Host, u.Path)
	case u.Path == "" || u.Path == "/":
		return nil, fmt.Errorf("%w: the URL names no folder", ErrInvalid)
	case u.RawQuery != "":
		return nil, fmt.Errorf("%w: a folder takes no parameters, got %q", ErrInvalid, u.RawQuery)
	}
	return NewFolder(filepath.FromSlash(u.Path))
}

// s3Params are the parameters of s3 URLs.
var s3Params = []string{"endpoint", "region", "use_path_style", "sign_payload", "profile"}

func openS3(ctx context.Context, u *url.URL) (Store, error) {
	if u.Host == "" {
		return nil, fmt.Errorf("%w: the URL names no bucket", ErrInvalid)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: credentials do not belong into the URL", ErrInvalid)
	}
	if p := strings.Trim(u.Path, "/"); p != "" && keyFault(p) != "" {
		return nil, fmt.Errorf("%w: the prefix %q %s", ErrInvalid, p, keyFault(p))
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains(s3Params, name) {
			return nil, fmt.Errorf("%w: unknown parameter %q: known are %s", ErrInvalid, name, strings.Join(s3Params, ", "))
		}
	}
	if e := q.Get("endpoint"); e != "" {
		if p, err := url.Parse(e); err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Host == "" {
			return nil, fmt.Errorf("%w: parameter endpoint is %q, must be a URL such as http://localhost:9000", ErrInvalid, e)
		}
	}
	pathStyle, err := boolParam(q, "use_path_style")
	if err != nil {
		return nil, err
	}
	sign, err := boolParam(q, "sign_payload")
	if err != nil {
		return nil, err
	}
	var opts []func(*config.LoadOptions) error
	if p := q.Get("profile"); p != "" {
		opts = append(opts, config.WithSharedConfigProfile(p))
	}
	if r := q.Get("region"); r != "" {
		opts = append(opts, config.WithRegion(r))
	} else if q.Get("endpoint") != "" {
		opts = append(opts, config.WithDefaultRegion("us-east-1"))
	}
	cfg, err := config.LoadDefaultConfig(ctx, append(opts, config.WithHTTPClient(NewHTTPClient()))...)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("%w: no region: set it in the URL (region=…), in AWS_REGION, or in the AWS configuration", ErrInvalid)
	}
	// Loading has added the configured bundle of CAs, if any, to the HTTP client.
	// Frozen, it is one whose connections can be closed.
	closeIdle := func() {}
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		cfg.HTTPClient = b.Freeze()
		if c, ok := cfg.HTTPClient.(interface{ CloseIdleConnections() }); ok {
			closeIdle = c.CloseIdleConnections
		}
	}
	s := NewS3(NewS3Client(cfg, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		if e := q.Get("endpoint"); e != "" {
			o.BaseEndpoint = &e
		}
	}), u.Host, u.Path, &S3Options{SignPayload: sign}).(*s3Store)
	s.close = closeIdle
	return s, nil
}

func boolParam(q url.Values, name string) (bool, error) {
	v := q.Get(name)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%w: parameter %s is %q, must be true or false", ErrInvalid, name, v)
	}
	return b, nil
}

// optIn names the package that brings a scheme.
var optIn = map[string]string{
	"gs":     "github.com/memwal/memwal-go/objstore/gcs",
	"azblob": "github.com/memwal/memwal-go/objstore/azure",
}

func openOther(ctx context.Context, rawURL string, u *url.URL) (Store, error) {
	if !blob.DefaultURLMux().ValidBucketScheme(u.Scheme) {
		if pkg := optIn[u.Scheme]; pkg != "" {
			return nil, fmt.Errorf("%w: the program does not link this cloud: import _ %q", ErrInvalid, pkg)
		}
		return nil, fmt.Errorf("%w: unknown scheme %q: mem, file and s3 are built in; others need a gocloud.dev driver to be imported", ErrInvalid, u.Scheme)
	}
	b, err := blob.OpenBucket(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return newBucket(b, "", true), nil
}
