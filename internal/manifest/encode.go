package manifest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
)

// Encode returns the bytes of a version. The same manifest gives the same bytes.
func (m *Manifest) Encode() ([]byte, error) {
	if m.Version == 0 || m.CommitID.IsZero() {
		return nil, fmt.Errorf("%w: encode version %d with commit id %s: neither may be zero", ErrInvalid, m.Version, m.CommitID)
	}
	p, err := m.toProto()
	if err != nil {
		return nil, err
	}
	// format goes first, whatever order the library chooses for the others.
	body := protowire.AppendTag(nil, fieldFormat, protowire.VarintType)
	body = protowire.AppendVarint(body, Format)
	body, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(body, p)
	if err != nil {
		return nil, fmt.Errorf("manifest: encode version %d: %w", m.Version, err)
	}
	if len(body)+trailerSize > MaxSize {
		return nil, fmt.Errorf("%w: version %d takes %d bytes, the bound is %d", ErrInvalid, m.Version, len(body), MaxSize)
	}
	return appendTrailer(body), nil
}

func (m *Manifest) toProto() (*pb.ShardManifest, error) {
	p := &pb.ShardManifest{
		Version: m.Version, WriterEpoch: m.Epoch, Status: pb.ShardStatus(m.Status),
		ReplayAfterWalEntryPosition: m.RowsFloor().Position,
		WalEntryPositionLastSeen:    m.LastSeen, CurrentGeneration: m.Generation,
		ShardSpecId: m.ShardSpecID, CommitId: m.CommitID[:],
		ParentCommitId: idToBytes(m.ParentCommitID), ClaimId: idToBytes(m.ClaimID),
		NextFieldId: m.NextFieldID, PrimaryKey: m.PrimaryKey, Annotations: m.Annotations,
		MaxInFlight:              m.MaxInFlight,
		OwnershipCheckAfterNanos: int64(m.OwnershipCheckAfter),
		FenceRetentionNanos:      int64(m.FenceRetention),
	}
	p.ProtoReflect().SetUnknown(m.unknown)
	if m.ShardID != [16]byte{} {
		p.ShardId = &pb.UUID{Uuid: m.ShardID[:]}
		p.ShardId.ProtoReflect().SetUnknown(m.shardUUID)
	}
	if m.Schema != nil {
		// What was read is written again as it was: it may say more than
		// this program's Arrow keeps.
		p.Schema = m.schemaBytes
		if m.Schema != m.schemaOf {
			b, err := wal.EncodeSchema(m.Schema)
			if err != nil {
				return nil, err
			}
			p.Schema = b
		}
	}
	for i := range m.Flushed {
		p.FlushedGenerations = append(p.FlushedGenerations, m.Flushed[i].toProto())
	}
	for i := range m.Floors {
		p.Floors = append(p.Floors, m.Floors[i].toProto())
	}
	for i := range m.Indexes {
		p.Indexes = append(p.Indexes, m.Indexes[i].toProto())
	}
	for _, r := range m.JournalEntries {
		q := &pb.EntryRef{Position: r.Position, PutId: idToBytes(r.PutID)}
		q.ProtoReflect().SetUnknown(r.unknown)
		p.JournalEntries = append(p.JournalEntries, q)
	}
	return p, nil
}

func idToBytes(id wal.PutID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func nanosOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (g *Generation) toProto() *pb.FlushedGeneration {
	p := &pb.FlushedGeneration{
		Generation: g.Generation, Path: g.Path, FirstRow: g.FirstRow, EndRow: g.EndRow,
		Rows: g.Rows, Tombstones: g.Tombstones, MinKey: g.MinKey, MaxKey: g.MaxKey,
		FirstGeneration: g.FirstGeneration, CreatedUnixNanos: nanosOf(g.Created),
	}
	p.ProtoReflect().SetUnknown(g.unknown)
	for i := range g.Files {
		f := &g.Files[i]
		q := &pb.File{Name: f.Name, Index: f.Index, Size: f.Size, Crc32C: f.CRC32C, HasCrc32C: f.HasCRC}
		q.ProtoReflect().SetUnknown(f.unknown)
		p.Files = append(p.Files, q)
	}
	return p
}

func (f *Floor) toProto() *pb.Floor {
	p := &pb.Floor{
		Plane: f.Plane, Kind: pb.FloorKind(f.Kind), State: pb.FloorState(f.State),
		Position: f.Position, Epoch: f.Epoch, PutId: idToBytes(f.PutID),
		NextRow: f.NextRow, Generation: f.Tuple.Generation,
	}
	if f.Plane == PlaneRows {
		p.Position = 0 // stored once, in replay_after_wal_entry_position
	}
	p.ProtoReflect().SetUnknown(f.unknown)
	l := &pb.Lease{ExpiresUnixNanos: nanosOf(f.Lease.Expires), MaxBytes: f.Lease.MaxBytes, MaxAgeNanos: int64(f.Lease.MaxAge)}
	l.ProtoReflect().SetUnknown(f.Lease.unknown)
	if proto.Size(l) > 0 {
		p.Lease = l
	}
	return p
}

func (x *IndexSpec) toProto() *pb.IndexSpec {
	p := &pb.IndexSpec{Name: x.Name, Kind: x.Kind, Options: x.Options}
	p.ProtoReflect().SetUnknown(x.unknown)
	for i := range x.Columns {
		c := &x.Columns[i]
		q := &pb.Column{Name: c.Name, FieldId: c.FieldID}
		q.ProtoReflect().SetUnknown(c.unknown)
		p.Columns = append(p.Columns, q)
	}
	return p
}
