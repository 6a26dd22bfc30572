package manifest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memwal/memwal-go/objstore"
)

// Options of a Log. Nil and the zero value mean defaults.
type Options struct {
	// OwnershipCheckAfter is the longest time between sending the List that a
	// commit was built on and processing its reply for which the reply alone is
	// proof. After that another List has to confirm it. It must be far below the
	// time for which versions are kept. The smaller one of this and the
	// manifest's counts. Default 30 s: smaller makes a slow store pay a List for
	// each commit, larger gains nothing.
	OwnershipCheckAfter time.Duration
	// Now is the clock; default time.Now. Readings with a monotonic part are
	// compared by both parts, and the larger difference counts: the monotonic
	// clock stops while a machine is suspended, the other may be set back.
	Now func() time.Time
	// Rand gives the jitter of the pauses between attempts: a number in [0, 1). It
	// may be called from several goroutines at once. Default rand.Float64.
	Rand func() float64
}

const defaultOwnershipCheckAfter = 30 * time.Second

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.OwnershipCheckAfter <= 0 {
		c.OwnershipCheckAfter = defaultOwnershipCheckAfter
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

// Log is the sequence of a shard's manifest versions in a store. It is safe for
// concurrent use and holds no resources.
type Log struct {
	Reader
	store objstore.Writer
}

// New returns the log in the folder dir of the store. o may be nil.
func New(store objstore.Writer, dir string, o *Options) *Log {
	return &Log{Reader: *NewReader(store, dir, o), store: store}
}

// Reader reads the versions. It is safe for concurrent use and holds no
// resources.
type Reader struct {
	from objstore.Reader
	dir  string // ends with a slash
	o    Options
}

// NewReader returns the reader of the log in the folder dir of the store. o may
// be nil.
func NewReader(from objstore.Reader, dir string, o *Options) *Reader {
	if dir != "" && !strings.HasSuffix(dir, "/") {
		dir += "/"
	}
	return &Reader{from: from, dir: dir, o: o.withDefaults()}
}

// relists bounds how often a List is repeated because the version that it
// showed as the newest was gone when it was read. That takes a recycler that is
// as fast as we are, each time.
const relists = 8

// Newest returns the newest version, or nil if there is none. Every failed
// request is an error.
func (l *Reader) Newest(ctx context.Context) (*Manifest, error) {
	for range relists {
		m, again, err := l.newestOnce(ctx)
		if err != nil {
			return nil, err
		}
		if !again {
			return m, nil
		}
	}
	return nil, fmt.Errorf("manifest: find the newest version in %q: versions vanish as fast as they are listed", l.dir)
}

func (l *Reader) newestOnce(ctx context.Context) (m *Manifest, again bool, err error) {
	sent := l.o.Now()
	versions, err := l.versions(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(versions) == 0 {
		m, err = l.newer(ctx, nil)
	} else {
		m, err = l.newestOf(ctx, versions[len(versions)-1])
		if errors.Is(err, errVanished) {
			return nil, true, nil
		}
	}
	if m != nil {
		m.listSent, m.oldest = sent, suffixStart(versions, m.Version)
	}
	return m, false, err
}

// errVanished says that a version was gone that had been listed.
var errVanished = errors.New("a listed version is gone")

// newestOf reads version top, which was listed, and those above. The one above
// is asked for at the same time, since as a rule there is none.
func (l *Reader) newestOf(ctx context.Context, top uint64) (*Manifest, error) {
	var m, next *Manifest
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if m, err = l.read(gctx, top); errors.Is(err, objstore.ErrNotExist) {
			err = errVanished
		}
		return err
	})
	g.Go(func() (err error) {
		next, err = l.readNext(gctx, top)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if next == nil {
		return m, nil
	}
	return l.newer(ctx, next)
}

// newer returns the newest version, reading upward from m, which may be nil.
func (l *Reader) newer(ctx context.Context, m *Manifest) (*Manifest, error) {
	for {
		var top uint64
		if m != nil {
			top = m.Version
		}
		next, err := l.readNext(ctx, top)
		if err != nil || next == nil {
			return m, err
		}
		m = next
	}
}

// readNext reads the version after v, or returns nil if there is none. Only
// "absent" means that: taking a failure for it would build on an outdated
// version, or tell a fenced writer that it is not.
func (l *Reader) readNext(ctx context.Context, v uint64) (*Manifest, error) {
	m, err := l.read(ctx, v+1)
	if errors.Is(err, objstore.ErrNotExist) {
		return nil, nil
	}
	return m, err
}

// Follower keeps up with the newest version for those who look often: as a rule
// with a single request. It is not for concurrent use.
type Follower struct {
	r    *Reader
	m    *Manifest // the newest one when sent was
	sent time.Time // when the request was sent that found none above m
}

// Follow returns a follower of the log.
func (l *Reader) Follow() *Follower { return &Follower{r: l} }

// Newest is like [Reader.Newest]. It probes upward from the version that it
// returned last, as long as no newer one can have come and gone since: versions
// are kept for the fence retention.
func (f *Follower) Newest(ctx context.Context) (*Manifest, error) {
	sent := f.r.o.Now()
	find := f.r.Newest
	if m := f.m; m != nil && !m.Legacy && elapsed(f.sent, sent) < m.FenceRetention/2 {
		find = func(ctx context.Context) (*Manifest, error) { return f.r.newer(ctx, m) }
	}
	m, err := find(ctx)
	if err != nil {
		return nil, err
	}
	f.m, f.sent = m, sent
	return m, nil
}

// versions returns the versions that a complete List shows, in order.
func (l *Reader) versions(ctx context.Context) ([]uint64, error) {
	var versions []uint64
	for obj, err := range l.from.List(ctx, l.dir) {
		if err != nil {
			return nil, fmt.Errorf("manifest: list versions in %q: %w", l.dir, err)
		}
		if v, ok := ParseName(strings.TrimPrefix(obj.Key, l.dir)); ok {
			versions = append(versions, v)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

// suffixStart returns the lowest of the versions that reach up to top without a
// gap. Versions that were found above the listed ones by probing are contiguous.
func suffixStart(versions []uint64, top uint64) uint64 {
	start := top
	if n := len(versions); n > 0 {
		start = versions[n-1]
	}
	for i := len(versions) - 2; i >= 0 && versions[i] == start-1; i-- {
		start = versions[i]
	}
	return start
}

// read reads one version.
func (l *Reader) read(ctx context.Context, version uint64) (*Manifest, error) {
	data, err := l.from.Get(ctx, l.dir+Name(version))
	if err != nil {
		return nil, fmt.Errorf("manifest: read version %d: %w", version, err)
	}
	m, err := Decode(data)
	if err != nil {
		if corrupt, ok := errors.AsType[*CorruptError](err); ok {
			corrupt.Version = version
		}
		return nil, err
	}
	if m.Version != version {
		return nil, &CorruptError{Version: version, Reason: fmt.Sprintf("the object says that it is version %d", m.Version)}
	}
	return m, nil
}

// Check returns a [FencedError] unless the claim is in force. It reads the
// newest version by a complete List.
func (l *Log) Check(ctx context.Context, own Owner) error {
	_, err := l.Owned(ctx, own)
	return err
}

// Owned returns the newest version if the claim is in force, and otherwise a
// [FencedError].
func (l *Log) Owned(ctx context.Context, own Owner) (*Manifest, error) {
	m, err := l.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return m, checkOwner(m, own)
}

func checkOwner(m *Manifest, own Owner) error {
	switch {
	case own.ClaimID.IsZero():
		return fmt.Errorf("%w: no claim to act for", ErrInvalid)
	case m == nil:
		return fmt.Errorf("%w, but epoch %d was claimed: somebody deleted it", ErrNotFound, own.Epoch)
	case m.Owner() == own:
		return nil
	}
	fenced := &FencedError{Ours: own, Theirs: m.Owner()}
	if m.Legacy {
		return fmt.Errorf("%w: %w", ErrForeignWriter, fenced)
	}
	return fenced
}

// foreignReaders is how many old versions are read at a time.
const foreignReaders = 8

// CheckForeign returns [ErrForeignWriter] if the newest version is a legacy one
// and any older version shows that memwal has written to the shard. It reads all
// versions that are kept.
func (l *Reader) CheckForeign(ctx context.Context, newest *Manifest) error {
	if newest == nil || !newest.Legacy {
		return nil
	}
	versions, err := l.versions(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(foreignReaders)
	for _, v := range slices.Backward(versions) {
		if v >= newest.Version {
			continue // somebody has claimed the shard since newest was read
		}
		g.Go(func() error {
			m, err := l.read(gctx, v)
			if errors.Is(err, objstore.ErrNotExist) {
				return nil // recycled meanwhile
			}
			if err == nil && !m.Legacy {
				err = fmt.Errorf("%w: version %d of the manifest has none of memwal's fields, version %d had them", ErrForeignWriter, newest.Version, v)
			}
			return err
		})
	}
	return g.Wait()
}
