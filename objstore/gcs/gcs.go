// Package gcs lets objstore.Open open gs:// URLs. Import it for its effect:
//
//	import _ "github.com/memwal/memwal-go/objstore/gcs"
//
// It links Google's client library, which the core does not. The URLs and the
// credentials are those of gocloud.dev/blob/gcsblob.
package gcs

import _ "gocloud.dev/blob/gcsblob" // registers the scheme
