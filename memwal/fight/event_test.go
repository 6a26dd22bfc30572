//go:build unix

package fight

import (
	"encoding/json"
	"os"
)

// kind says what an event is about.
type kind string

const (
	opening   kind = "opening"   // Open is about to be called
	opened    kind = "opened"    // Open returned: Epoch; Row is the number of rows that it found
	notOpened kind = "notOpened" // Open failed: Text; Epoch is the claim that was fenced, if it was
	issued    kind = "issued"    // rows First … First+Rows-1 are about to be put, or their keys deleted
	refused   kind = "refused"   // they were not accepted: nothing was stored
	acked     kind = "acked"     // they were acknowledged; Row is the ordinal of the first, if Placed
	fenced    kind = "fenced"    // the writer has learnt that it was fenced
	woken     kind = "woken"     // Rows tickets were under way when that happened, and were woken
	ended     kind = "ended"     // the incarnation is over: Text says how
	saw       kind = "saw"       // a snapshot showed Rows live rows of the first Row ones, with that Sum
	violation kind = "violation" // the child saw a rule broken: ID and Text
)

// event is one report of a child, one line of JSON. A line is written at once and
// is shorter than what a pipe takes in one piece (PIPE_BUF: 512 bytes or more).
type event struct {
	Kind   kind   `json:"k"`
	At     moment `json:"at"`
	Open   int    `json:"o,omitempty"` // which call of Open, of all processes
	Lane   int    `json:"l,omitempty"` // which putter of it
	Epoch  uint64 `json:"e,omitempty"`
	First  int64  `json:"n,omitempty"`
	Rows   int    `json:"rows,omitempty"`
	Delete bool   `json:"d,omitempty"`
	Row    uint64 `json:"r,omitempty"`
	Placed bool   `json:"p,omitempty"`
	Sum    uint64 `json:"s,omitempty"`
	Since  moment `json:"since,omitempty"` // saw: when the reader began to refresh; 0: a writer's
	ID     string `json:"id,omitempty"`
	Text   string `json:"t,omitempty"`

	process int // set by the parent
}

// reporter is the child's end of the pipe.
type reporter struct {
	clock clock
	pipe  *os.File
}

// maxText keeps a line below the least PIPE_BUF.
const maxText = 280

// send returns when the parent has the event, whatever happens to this process
// from then on. Unless it has one, the event gets the present moment.
func (r *reporter) send(e event) moment {
	if e.At == 0 {
		e.At = r.clock.now()
	}
	if len(e.Text) > maxText {
		e.Text = e.Text[:maxText/2] + " … " + e.Text[len(e.Text)-maxText/2:]
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.pipe.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(exitOrphan) // nobody listens any more
	}
	return e.At
}
