// Package fault puts single faults back into memwal, so that tests can show that
// they would find them. Each switch turns one guard off. Without the build tag
// faults the switches are constants, false, and the compiler removes what they
// guard; with it they are variables that Set changes.
//
// A binary that is built with the tag is for tests only: never give it data to keep.
package fault
