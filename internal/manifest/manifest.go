package manifest

import (
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/memwal/memwal-go/internal/wal"
)

// Plane names that are fixed, and prefixes of the others.
const (
	// PlaneRows is the generation flush.
	PlaneRows = "rows"
	// PlaneJournal is the application's journal, which has no snapshot.
	PlaneJournal = "journal"
	// PlaneIndexPrefix begins the plane of an index.
	PlaneIndexPrefix = "index/"
	// PlaneConsumerPrefix begins the plane of a named tailer.
	PlaneConsumerPrefix = "consumer/"
)

// Status says whether a shard accepts claims. Values of newer programs are kept.
type Status int32

// Statuses.
const (
	Active Status = 0
	Sealed Status = 1
)

// String implements fmt.Stringer.
func (s Status) String() string {
	switch s {
	case Active:
		return "active"
	case Sealed:
		return "sealed"
	}
	return "unknown"
}

// Kind says what a plane's floor stands for.
type Kind int32

// Kinds of planes.
const (
	// Snapshot planes have made everything at and below their floor durable elsewhere.
	Snapshot Kind = 0
	// Cursor planes have read everything at and below their floor.
	Cursor Kind = 1
	// NoSnapshot planes live only in the log; their floor is not counted.
	NoSnapshot Kind = 2
)

// State says whether a plane still holds the log.
type State int32

// States of planes.
const (
	// Live planes hold the log from their floor on.
	Live State = 0
	// Invalidated planes have exceeded their bound and hold nothing.
	Invalidated State = 1
)

// Manifest is one version of a shard's control file. A manifest that was read
// or committed is shared and must not be changed; change a Clone.
type Manifest struct {
	// Version numbers the versions, from 1.
	Version uint64
	// Epoch is the fencing token of the writer that may write, from 1; another
	// program's first version may have 0.
	Epoch  uint64
	Status Status
	// CommitID tells one attempt to commit from another. Commits set it.
	CommitID wal.PutID
	// ParentCommitID is the CommitID of the version that this one was built on.
	// Commits set it.
	ParentCommitID wal.PutID
	// ClaimID is the CommitID of the version that claimed Epoch. Claims set it.
	ClaimID wal.PutID
	// LastSeen is the last position of the contiguous resolved prefix of the log
	// at the time of the commit; only ever that of a live entry.
	LastSeen uint64
	// Generation is the current one: the first that is not flushed, from 1.
	Generation uint64
	// Flushed are the generations that readers must read, oldest first.
	Flushed []Generation
	// Floors has one floor for each plane, in no particular order. Use Floor,
	// SetFloor and RemoveFloor.
	Floors []Floor
	// Schema is the storage schema; nil in a legacy manifest.
	Schema *arrow.Schema
	// NextFieldID is the lowest field id that was never used.
	NextFieldID int32
	PrimaryKey  []string
	Indexes     []IndexSpec
	// Annotations are exactly those at the rows floor.
	Annotations map[string][]byte
	// MaxInFlight, OwnershipCheckAfter and FenceRetention are the largest that
	// any writer of this shard ever ran with. Claims record them; they only grow.
	MaxInFlight         uint64 // positions that unresolved puts span
	OwnershipCheckAfter time.Duration
	FenceRetention      time.Duration
	// JournalEntries are the entries below the recycle floor that hold live
	// journal records.
	JournalEntries []EntryRef

	ShardID     [16]byte
	ShardSpecID uint32

	// Legacy is set on manifests without any field of memwal: the ones that
	// another program wrote. It is not stored.
	Legacy bool

	replayAfter uint64                 // rows floor of a legacy manifest
	schemaOf    *arrow.Schema          // what schemaBytes encode
	schemaBytes []byte                 // as read
	unknown     protoreflect.RawFields // of the message itself
	shardUUID   protoreflect.RawFields // unknown fields of shard_id
	listSent    time.Time              // when the List was sent that this was found by
	oldest      uint64                 // lowest version of the suffix in that List
}

// Generation is a flushed generation.
type Generation struct {
	Generation uint64
	Path       string // name of its folder below the shard's
	// FirstRow and EndRow are the row ordinals that it covers, end exclusive.
	FirstRow, EndRow uint64
	Rows             uint64 // in the file, tombstones included
	Tombstones       uint64
	MinKey, MaxKey   []byte // encoded primary keys, inclusive
	Files            []File
	FirstGeneration  uint64 // lowest that went into it; 0: only itself
	Created          time.Time

	unknown protoreflect.RawFields
}

// File is an object of a generation.
type File struct {
	Name  string // below the generation's folder
	Index string // index that it is a sidecar of; "" for the rows
	Size  uint64
	// CRC32C of the content, if HasCRC.
	CRC32C uint32
	HasCRC bool

	unknown protoreflect.RawFields
}

// Floor is the place that a plane has durably absorbed the log up to.
type Floor struct {
	Plane string
	Kind  Kind
	State State
	Lease Lease
	wal.Tuple

	unknown protoreflect.RawFields
}

// Lease bounds what a consumer may hold. Zero fields mean no bound.
type Lease struct {
	Expires  time.Time
	MaxBytes uint64
	MaxAge   time.Duration

	unknown protoreflect.RawFields
}

// IndexSpec describes an index.
type IndexSpec struct {
	Name    string
	Kind    string
	Columns []Column
	Options map[string]string

	unknown protoreflect.RawFields
}

// Column names a column: by its field id where that is not 0, else by name.
type Column struct {
	Name    string
	FieldID int32

	unknown protoreflect.RawFields
}

// EntryRef names an entry of the log.
type EntryRef struct {
	Position uint64
	PutID    wal.PutID

	unknown protoreflect.RawFields
}

// Owner identifies a claim.
type Owner struct {
	Epoch   uint64
	ClaimID wal.PutID
}

// Owner returns the claim in force.
func (m *Manifest) Owner() Owner { return Owner{Epoch: m.Epoch, ClaimID: m.ClaimID} }

// RowsFloor returns where replay of rows begins: [wal.Start] if nothing has been
// flushed. For a legacy manifest it has only the position and the generation.
func (m *Manifest) RowsFloor() wal.Tuple {
	if f, ok := m.Floor(PlaneRows); ok {
		return f.Tuple
	}
	t := wal.Start()
	if m.replayAfter != 0 {
		t.Position, t.Generation = m.replayAfter, max(m.Generation, 1)
	}
	return t
}

// RecycleFloor returns the position at and below which no plane needs the log any
// more, so that it may have been recycled: the lowest floor of the planes that hold
// it. 0 means that nothing may be gone. Of a legacy manifest it is where its
// program's replay begins.
func (m *Manifest) RecycleFloor() uint64 {
	if m.Legacy {
		return m.replayAfter
	}
	floor, held := uint64(0), false
	for _, f := range m.Floors {
		if f.Kind == NoSnapshot || f.State == Invalidated {
			continue
		}
		if !held || f.Position < floor {
			floor, held = f.Position, true
		}
	}
	return floor
}

// Floor returns the floor of a plane.
func (m *Manifest) Floor(plane string) (Floor, bool) {
	i := m.floorIndex(plane)
	if i < 0 {
		return Floor{}, false
	}
	return m.Floors[i], true
}

// SetFloor adds or replaces the floor of f.Plane. Fields of newer programs in
// the one that it replaces are kept.
func (m *Manifest) SetFloor(f Floor) {
	i := m.floorIndex(f.Plane)
	if i < 0 {
		m.Floors = append(m.Floors, f)
		return
	}
	if f.unknown == nil {
		f.unknown = m.Floors[i].unknown
	}
	if f.Lease.unknown == nil {
		f.Lease.unknown = m.Floors[i].Lease.unknown
	}
	m.Floors[i] = f
}

// RemoveFloor removes the floor of a plane, if there is one: for planes that are
// given up. The writer itself never does.
func (m *Manifest) RemoveFloor(plane string) {
	m.Floors = slices.DeleteFunc(m.Floors, func(f Floor) bool { return f.Plane == plane })
}

func (m *Manifest) floorIndex(plane string) int {
	return slices.IndexFunc(m.Floors, func(f Floor) bool { return f.Plane == plane })
}

// Clone returns a copy that shares nothing that can be changed: keys, values and
// the schema are shared and must be replaced, not edited.
func (m *Manifest) Clone() *Manifest {
	c := *m
	c.Flushed = slices.Clone(m.Flushed)
	for i := range c.Flushed {
		c.Flushed[i].Files = slices.Clone(c.Flushed[i].Files)
	}
	c.Floors = slices.Clone(m.Floors)
	c.PrimaryKey = slices.Clone(m.PrimaryKey)
	c.Indexes = slices.Clone(m.Indexes)
	for i := range c.Indexes {
		c.Indexes[i].Columns = slices.Clone(c.Indexes[i].Columns)
		c.Indexes[i].Options = maps.Clone(c.Indexes[i].Options)
	}
	c.Annotations = maps.Clone(m.Annotations)
	c.JournalEntries = slices.Clone(m.JournalEntries)
	return &c
}
