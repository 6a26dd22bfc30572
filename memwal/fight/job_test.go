//go:build unix

package fight

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/memwal"
	"github.com/memwal/memwal-go/objstore"
)

// jobVariable is the environment variable that makes a process a child.
const jobVariable = "MEMWAL_FIGHT_JOB"

// roles of children.
const (
	roleWriter  = "writer"  // fights for the shard
	roleReader  = "reader"  // looks on
	roleSteady  = "steady"  // writes until it is fenced, opens once
	roleRacer   = "racer"   // puts objects that others put, too
	roleKeeper  = "keeper"  // starts another child and waits to be killed
	roleSleeper = "sleeper" // locks a file and does nothing
)

// Exit codes of children.
const (
	exitOrphan = 3 // the parent is gone
	exitBroken = 4 // what a child needs is not there
)

// job is what a child is told.
type job struct {
	Role    string
	URL     string // of the store
	Shard   uuid.UUID
	Clock   string // file
	From    int64  // key that a racer begins with
	Process int    // number of this process, unique
	Seed    uint64
	Keyed   bool
	Options tuning
}

// tuning is what a round chooses of the options of a writer.
type tuning struct {
	FlushInterval      time.Duration
	FlushBytes         int64
	MaxEntryBytes      int64
	MaxInFlight        int
	MaxMemtableRows    int64
	MaxMemtableBatches int
	Compression        memwal.Compression
	RequestTimeout     time.Duration
	MaxAttempts        int
	Pause              time.Duration // of a putter, on average
	Async              bool          // putters do not wait for each batch
}

// checkAfter is the OwnershipCheckAfter of every writer: the least.
const checkAfter = time.Second

func (j *job) retry() objstore.RetryOptions {
	return objstore.RetryOptions{
		RequestTimeout: j.Options.RequestTimeout, MaxAttempts: j.Options.MaxAttempts,
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
	}
}

// indexName is what the call of Open with that number calls its index: the
// manifest then tells whose claim each version is.
func indexName(open int) string { return fmt.Sprintf("by_n_%d", open) }

// writerOptions are those for a call of Open. Only MaxInFlight and the index's
// name differ from one to the next.
func (j *job) writerOptions(open, inFlight int) *memwal.Options {
	o := &memwal.Options{
		Indexes:       []index.Config{index.Ordered{Name: indexName(open), Columns: []index.Column{{Name: "n"}}}},
		FlushInterval: j.Options.FlushInterval, FlushBytes: j.Options.FlushBytes, MaxEntryBytes: j.Options.MaxEntryBytes,
		MaxInFlight: inFlight, MaxMemtableRows: j.Options.MaxMemtableRows, MaxMemtableBatches: j.Options.MaxMemtableBatches,
		Compression: j.Options.Compression, OwnershipCheckAfter: checkAfter, Retry: j.retry(),
	}
	if j.Keyed {
		o.PrimaryKey = []string{"id"}
	}
	return o
}

// child is this process, if it is one.
type child struct {
	job
	reporter
	rand    *rand.Rand // of the main goroutine
	store   objstore.Store
	ctx     context.Context // ends some time after finish: nothing may hang
	finish  chan struct{}   // closed when the parent has had enough
	opens   int             // calls of Open so far
	numbers int64           // of rows, given out so far
}

// lastWords is how long a child that was told to finish may take for calls.
const lastWords = 30 * time.Second

// runChild does what the job says and ends the process.
func runChild(text string) {
	c := &child{finish: make(chan struct{})}
	if err := c.start(text); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(exitBroken)
	}
	switch c.Role {
	case roleWriter:
		c.write()
	case roleSteady:
		c.writeOnce()
	case roleReader:
		c.read()
	case roleRacer:
		c.race()
	case roleKeeper:
		c.keep()
	case roleSleeper:
		c.sleep()
	default:
		os.Exit(exitBroken)
	}
	os.Exit(0)
}

func (c *child) start(text string) error {
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		return err
	}
	var err error
	if c.reporter.clock, err = openClock(c.Clock); err != nil {
		return err
	}
	c.pipe = os.NewFile(3, "report")
	c.rand = rand.New(rand.NewPCG(c.Seed, uint64(c.Process)))
	if c.URL != "" {
		if c.store, err = objstore.Open(context.Background(), c.URL); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	go func() {
		// Whatever comes, other than the end, means to finish.
		if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
			os.Exit(exitOrphan)
		}
		close(c.finish)
		time.Sleep(lastWords)
		cancel()
	}()
	return nil
}

func (c *child) finishing() bool {
	select {
	case <-c.finish:
		return true
	default:
		return false
	}
}

// pause sleeps for up to d, or until the child is to finish.
func (c *child) pause(r *rand.Rand, d time.Duration) {
	select {
	case <-time.After(time.Duration(r.Int64N(int64(d)) + 1)):
	case <-c.finish:
	}
}

func (c *child) violate(id, format string, args ...any) {
	c.send(event{Kind: violation, ID: id, Text: fmt.Sprintf(format, args...)})
}

// explained tells whether nothing but stops, kills and slow requests is needed
// to explain the error.
func explained(err error) bool {
	for _, e := range []error{
		memwal.ErrFenced, memwal.ErrAborted, memwal.ErrClosed, context.DeadlineExceeded, context.Canceled,
		objstore.ErrAmbiguous, objstore.ErrThrottled, objstore.ErrConflict,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, gaveUp := errors.AsType[*objstore.RetryError](err)
	return gaveUp
}
