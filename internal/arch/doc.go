// Package arch holds the test of the module's architecture: which package may
// import which.
package arch
