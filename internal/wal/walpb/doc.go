// Package walpb is the generated code of the side section's messages.
package walpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative side.proto
