package objstoretest

import (
	"cmp"
	"encoding/base64"
	"encoding/xml"
	"hash/crc32"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	EncodingType          string `xml:",omitempty"`
	KeyCount              int
	MaxKeys               int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listEntry
}

type listEntry struct {
	Key          string
	LastModified string
	Size         int
	StorageClass string
}

// list replies with a page. The token is the last key of the page before; the
// order is by key, or by a hash of it.
func (s *S3) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	res := listResult{Name: S3Bucket, Prefix: q.Get("prefix"), EncodingType: q.Get("encoding-type"), MaxKeys: s.PageSize}
	if res.MaxKeys <= 0 {
		res.MaxKeys = 1000
	}
	after, err := base64.RawURLEncoding.DecodeString(q.Get("continuation-token"))
	if err != nil {
		s3Fail(w, r, http.StatusBadRequest, "InvalidArgument")
		return
	}
	order := strings.Compare
	if s.Unordered {
		order = func(a, b string) int {
			return cmp.Or(cmp.Compare(crc32.ChecksumIEEE([]byte(a)), crc32.ChecksumIEEE([]byte(b))), strings.Compare(a, b))
		}
	}
	keys := s.keysAfter(res.Prefix, string(after), order)
	if len(keys) > res.MaxKeys {
		keys = keys[:res.MaxKeys]
		res.IsTruncated = true
		res.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(keys[len(keys)-1]))
	}
	s.mu.Lock()
	for _, key := range keys {
		o := s.objects[key]
		e := listEntry{Key: key, Size: len(o.data), LastModified: o.modified.UTC().Format(time.RFC3339Nano), StorageClass: "STANDARD"}
		if res.EncodingType == "url" {
			e.Key = url.QueryEscape(key)
		}
		res.Contents = append(res.Contents, e)
	}
	s.mu.Unlock()
	res.KeyCount = len(res.Contents)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(res)
}

// keysAfter returns the keys with the prefix that come after one in the order.
func (s *S3) keysAfter(prefix, after string, order func(a, b string) int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) && (after == "" || order(key, after) > 0) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, order)
	return keys
}
