package flusher

import "time"

// proof is the newest evidence that this writer owns its shard.
type proof struct {
	sent time.Time // when the request was sent that proves it
	date time.Time // the store's clock at its reply; zero if it gives none
}

// elapsed is the time since the proof was sent, now that a reply with the
// store's date is processed: the largest that any clock shows. The monotonic
// clock stops while a machine is suspended, the wall clock may be set back, and
// the store's clock is not always there.
func (p proof) elapsed(now, date time.Time) time.Duration {
	d := max(now.Sub(p.sent), now.Round(0).Sub(p.sent.Round(0)))
	if !date.IsZero() && !p.date.IsZero() {
		d = max(d, date.Sub(p.date))
	}
	return d
}

// renew makes an in-order put the proof, unless the one in force was sent
// later.
func (p *proof) renew(sent, date time.Time) {
	if sent.After(p.sent) {
		p.sent = sent
	}
	if !date.IsZero() {
		p.date = date
	}
}
