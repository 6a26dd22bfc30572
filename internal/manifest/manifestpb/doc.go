// Package manifestpb is the generated code of the manifest's messages.
package manifestpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative manifest.proto
