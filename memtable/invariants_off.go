//go:build !invariants

package memtable

// invariantsOn makes the package check what its fields promise.
const invariantsOn = false
