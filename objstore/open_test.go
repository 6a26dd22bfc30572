package objstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "gocloud.dev/blob/memblob" // a scheme that gocloud.dev serves; mem:// stays ours

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/objstoretest"
)

func TestOpen(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	dir := filepath.Join(t.TempDir(), "with space", "deep")
	srv := objstoretest.StartS3(t)
	for _, url := range []string{
		"mem://", "file://" + strings.ReplaceAll(dir, " ", "%20"),
		"s3://" + objstoretest.S3Bucket + "/some/prefix/?use_path_style=true&endpoint=" + srv.Endpoint(),
		"s3://" + objstoretest.S3Bucket + "?region=eu-west-1&use_path_style=1&sign_payload=true&endpoint=" + srv.Endpoint(),
	} {
		s, err := objstore.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := objstore.Probe(t.Context(), s, "probe"); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", url, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "probe")); err != nil {
		t.Error(err)
	}
	if reqs := srv.Requests(); len(reqs) < 2 || reqs[0].Key != "some/prefix/probe" || len(reqs[len(reqs)-1].Sent) != 64 {
		t.Errorf("requests: %+v", reqs)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	for url, says := range map[string]string{
		"":                          "URL",
		"/just/a/path":              "URL",
		"mem://name":                "mem://",
		"file://dir/x":              "absolute",
		"file:///tmp?sync=false":    "parameters",
		"s3://":                     "bucket",
		"s3://b":                    "region",
		"s3://b?regoin=x":           "regoin",
		"s3://b?use_path_style=yes": "use_path_style",
		"s3://b?endpoint=localhost": "endpoint",
		"s3://b/a//b?region=x":      "prefix",
		"s3://key:hush@b?region=x":  "credentials",
		"gs://b":                    "objstore/gcs",
		"azblob://b":                "objstore/azure",
		"ftp://b":                   "driver",
	} {
		s, err := objstore.Open(t.Context(), url)
		if !errors.Is(err, objstore.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("Open(%q) = %v, %v; want ErrInvalid that says %q", url, s, err, says)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}
