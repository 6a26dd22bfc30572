//go:build !unix

package main

import (
	"runtime/metrics"
	"time"
)

// cpuTime is the CPU time of this process so far as the Go runtime estimates
// it, since there is no getrusage here.
func cpuTime() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration((s[0].Value.Float64() - s[1].Value.Float64()) * float64(time.Second))
}

// peakMemory is the memory that the Go runtime has mapped, in bytes: it
// seldom gives any back.
func peakMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// residentMemory is not known here: 0.
func residentMemory() int64 { return 0 }
