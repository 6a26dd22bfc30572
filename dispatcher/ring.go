package dispatcher

// ring is a queue that reuses its memory. Its owner bounds its length.
type ring[M any] struct {
	buf  []M // grows by doubling, up to the bound that the owner keeps
	head int // index of the oldest
	n    int // 0 <= n <= len(buf)
}

func (r *ring[M]) len() int { return r.n }

func (r *ring[M]) push(m M) {
	if r.n == len(r.buf) {
		grown := make([]M, max(8, 2*r.n))
		copied := copy(grown, r.buf[r.head:])
		copy(grown[copied:], r.buf[:r.head])
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)%len(r.buf)] = m
	r.n++
}

// pop removes the oldest. The ring must not be empty.
func (r *ring[M]) pop() M {
	var zero M
	m := r.buf[r.head]
	r.buf[r.head] = zero // what the message refers to must not outlive it here
	r.head = (r.head + 1) % len(r.buf)
	r.n--
	return m
}
