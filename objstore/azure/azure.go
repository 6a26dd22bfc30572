// Package azure lets objstore.Open open azblob:// URLs. Import it for its
// effect:
//
//	import _ "github.com/memwal/memwal-go/objstore/azure"
//
// It links Azure's client library, which the core does not. The URLs and the
// credentials are those of gocloud.dev/blob/azureblob.
package azure

import _ "gocloud.dev/blob/azureblob" // registers the scheme
