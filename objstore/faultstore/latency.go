package faultstore

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/memwal/memwal-go/objstore"
)

// Latency describes how long requests take. The zero value takes no time.
type Latency struct {
	// P50 and P99 are the median and the 99th percentile of the time of a
	// request apart from its bytes, drawn from a log-normal distribution. A
	// P99 below P50 means P50 always.
	P50, P99 time.Duration
	// Bandwidth is what one request moves, in bytes a second; 0 means
	// no limit. Requests do not share it: object stores limit a connection long
	// before the sum.
	Bandwidth int64
}

// S3Like is what a bucket of the same region gives: the medians and tails that
// are commonly measured for small objects, and one connection's bandwidth.
var S3Like = Latency{P50: 28 * time.Millisecond, P99: 67 * time.Millisecond, Bandwidth: 90e6}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// draw returns the time of a request apart from its bytes.
func (l Latency) draw(rng *rand.Rand) time.Duration {
	if l.P50 <= 0 {
		return 0
	}
	sigma := 0.0
	if l.P99 > l.P50 {
		sigma = math.Log(float64(l.P99)/float64(l.P50)) / z99
	}
	return time.Duration(float64(l.P50) * math.Exp(sigma*rng.NormFloat64()))
}

// transfer returns the time that n bytes take.
func (l Latency) transfer(n int64) time.Duration {
	if l.Bandwidth <= 0 {
		return 0
	}
	return time.Duration(float64(n) / float64(l.Bandwidth) * float64(time.Second))
}

// SetLatency gives requests of these kinds (none = all) a latency, from the
// next request on. It is spent before the request is applied, the transfer of what
// a get returns after.
func (s *Store) SetLatency(l Latency, ops ...objstore.Op) {
	if len(ops) == 0 {
		ops = allOps
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		s.latency[op] = l
	}
}
