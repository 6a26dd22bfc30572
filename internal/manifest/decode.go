package manifest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/memwal/memwal-go/internal/manifest/manifestpb"
	"github.com/memwal/memwal-go/internal/wal"
)

// Format is the version of memwal's part of the message. It changes only when
// older programs must not read on; fields may be added without.
const Format = 1

// firstOwnField is the lowest field number of memwal's.
const firstOwnField = 100

// The trailer is the last fields of the message, in fixed size:
//
//	┌───────────────────────────┬────────┬───────────────┬────────┬───────────┐
//	│ message: format first, …  │ f1 7c  │ body length 8 │ fd 7c  │ crc32c 4  │
//	└───────────────────────────┴────────┴───────────────┴────────┴───────────┘
//	 └────── body ─────────────┘ └ field 1998, fixed64 ─┘ └ 1999, fixed32 ────┘
//	 └────────────── covered by the crc ────────────────┘
const (
	fieldFormat     = protowire.Number(firstOwnField)
	fieldBodyLength = protowire.Number(1998)
	fieldBodyCRC    = protowire.Number(1999)
	trailerSize     = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MaxSize bounds a manifest. A generation takes some hundred bytes.
const MaxSize = 64 << 20

// appendTrailer appends the trailer to a body.
func appendTrailer(body []byte) []byte {
	n := len(body)
	body = protowire.AppendTag(body, fieldBodyLength, protowire.Fixed64Type)
	body = protowire.AppendFixed64(body, uint64(n))
	sum := crc32.Checksum(body, castagnoli)
	body = protowire.AppendTag(body, fieldBodyCRC, protowire.Fixed32Type)
	return protowire.AppendFixed32(body, sum)
}

// checkTrailer returns the body of a message that ends with an intact trailer.
func checkTrailer(data []byte) ([]byte, error) {
	if len(data) < trailerSize {
		return nil, &CorruptError{Reason: "checksum is missing"}
	}
	body, trailer := data[:len(data)-trailerSize], data[len(data)-trailerSize:]
	lengthTag := protowire.AppendTag(nil, fieldBodyLength, protowire.Fixed64Type)
	crcTag := protowire.AppendTag(nil, fieldBodyCRC, protowire.Fixed32Type)
	if string(trailer[:2]) != string(lengthTag) || string(trailer[10:12]) != string(crcTag) {
		return nil, &CorruptError{Reason: "checksum is missing"}
	}
	got := crc32.Checksum(data[:len(data)-6], castagnoli)
	if want := binary.LittleEndian.Uint32(trailer[12:]); got != want {
		return nil, &CorruptError{Reason: fmt.Sprintf("checksum is %08x, recorded as %08x", got, want)}
	}
	if n := binary.LittleEndian.Uint64(trailer[2:]); n != uint64(len(body)) {
		return nil, &CorruptError{Reason: fmt.Sprintf("%d bytes, recorded as %d", len(body), n)}
	}
	return body, nil
}

// hasOwnFields reports whether a message has any field of memwal's, known or not.
func hasOwnFields(data []byte) (bool, error) {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false, protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(num, typ, data[n:])
		if m < 0 {
			return false, protowire.ParseError(m)
		}
		if num >= firstOwnField {
			return true, nil
		}
		data = data[n+m:]
	}
	return false, nil
}

// Decode reads a manifest. It copies everything out of data. Errors match
// [ErrCorrupt] and do not know the version that was asked for.
func Decode(data []byte) (*Manifest, error) {
	if len(data) > MaxSize {
		return nil, &CorruptError{Reason: fmt.Sprintf("%d bytes, the bound is %d", len(data), MaxSize)}
	}
	own, err := hasOwnFields(data)
	if err != nil {
		return nil, &CorruptError{Reason: "not a protobuf message", Err: err}
	}
	body := data
	if own {
		if body, err = checkTrailer(data); err != nil {
			return nil, err
		}
	}
	var p pb.ShardManifest
	if err := proto.Unmarshal(body, &p); err != nil {
		return nil, &CorruptError{Reason: "not a manifest", Err: err}
	}
	m := &Manifest{Legacy: !own}
	if err := m.fromProto(&p); err != nil {
		return nil, &CorruptError{Version: p.Version, Reason: "unusable content", Err: err}
	}
	return m, nil
}

func (m *Manifest) fromProto(p *pb.ShardManifest) error {
	if p.Version == 0 {
		return fmt.Errorf("version is 0")
	}
	if !m.Legacy && p.Format != Format {
		return fmt.Errorf("format %d, this program knows format %d", p.Format, Format)
	}
	m.Version, m.Epoch, m.Status = p.Version, p.WriterEpoch, Status(p.Status)
	m.LastSeen, m.Generation = p.WalEntryPositionLastSeen, p.CurrentGeneration
	m.ShardSpecID, m.NextFieldID = p.ShardSpecId, p.NextFieldId
	m.PrimaryKey, m.MaxInFlight = p.PrimaryKey, p.MaxInFlight
	m.OwnershipCheckAfter = time.Duration(p.OwnershipCheckAfterNanos)
	m.FenceRetention = time.Duration(p.FenceRetentionNanos)
	m.replayAfter = p.ReplayAfterWalEntryPosition
	m.unknown = p.ProtoReflect().GetUnknown()
	if len(p.Annotations) > 0 {
		m.Annotations = p.Annotations
	}
	if err := m.idsFromProto(p); err != nil {
		return err
	}
	if len(p.Schema) > 0 {
		schema, err := wal.DecodeSchema(p.Schema)
		if err != nil {
			return err
		}
		m.Schema, m.schemaOf, m.schemaBytes = schema, schema, p.Schema
	}
	for _, g := range p.FlushedGenerations {
		m.Flushed = append(m.Flushed, generationFromProto(g))
	}
	for _, x := range p.Indexes {
		m.Indexes = append(m.Indexes, indexFromProto(x))
	}
	if err := m.floorsFromProto(p); err != nil {
		return err
	}
	for _, r := range p.JournalEntries {
		id, err := idFromBytes("journal entry", r.PutId)
		if err != nil {
			return err
		}
		m.JournalEntries = append(m.JournalEntries, EntryRef{Position: r.Position, PutID: id, unknown: r.ProtoReflect().GetUnknown()})
	}
	return nil
}

func (m *Manifest) idsFromProto(p *pb.ShardManifest) error {
	var err error
	if m.CommitID, err = idFromBytes("commit_id", p.CommitId); err != nil {
		return err
	}
	if m.ParentCommitID, err = idFromBytes("parent_commit_id", p.ParentCommitId); err != nil {
		return err
	}
	if m.ClaimID, err = idFromBytes("claim_id", p.ClaimId); err != nil {
		return err
	}
	if !m.Legacy && m.CommitID.IsZero() {
		return fmt.Errorf("commit_id is missing")
	}
	if p.ShardId == nil {
		return nil
	}
	if len(p.ShardId.Uuid) != len(m.ShardID) {
		return fmt.Errorf("shard_id has %d bytes", len(p.ShardId.Uuid))
	}
	copy(m.ShardID[:], p.ShardId.Uuid)
	m.shardUUID = p.ShardId.ProtoReflect().GetUnknown()
	return nil
}

// idFromBytes reads an id that may be absent.
func idFromBytes(what string, b []byte) (wal.PutID, error) {
	var id wal.PutID
	if len(b) != 0 && len(b) != len(id) {
		return id, fmt.Errorf("%s has %d bytes", what, len(b))
	}
	copy(id[:], b)
	return id, nil
}

func (m *Manifest) floorsFromProto(p *pb.ShardManifest) error {
	for _, f := range p.Floors {
		id, err := idFromBytes("floor of plane "+f.Plane, f.PutId)
		if err != nil {
			return err
		}
		if _, dup := m.Floor(f.Plane); dup || f.Plane == "" {
			return fmt.Errorf("two floors of plane %q, or one without a name", f.Plane)
		}
		floor := Floor{
			Plane: f.Plane, Kind: Kind(f.Kind), State: State(f.State),
			Tuple:   wal.Tuple{Position: f.Position, Epoch: f.Epoch, PutID: id, NextRow: f.NextRow, Generation: f.Generation},
			unknown: f.ProtoReflect().GetUnknown(),
		}
		if f.Plane == PlaneRows {
			floor.Position = p.ReplayAfterWalEntryPosition
		}
		if l := f.Lease; l != nil {
			floor.Lease = Lease{
				Expires: timeFromNanos(l.ExpiresUnixNanos), MaxBytes: l.MaxBytes,
				MaxAge: time.Duration(l.MaxAgeNanos), unknown: l.ProtoReflect().GetUnknown(),
			}
		}
		m.Floors = append(m.Floors, floor)
	}
	return nil
}

func generationFromProto(g *pb.FlushedGeneration) Generation {
	out := Generation{
		Generation: g.Generation, Path: g.Path, FirstRow: g.FirstRow, EndRow: g.EndRow,
		Rows: g.Rows, Tombstones: g.Tombstones, MinKey: g.MinKey, MaxKey: g.MaxKey,
		FirstGeneration: g.FirstGeneration, Created: timeFromNanos(g.CreatedUnixNanos),
		unknown: g.ProtoReflect().GetUnknown(),
	}
	for _, f := range g.Files {
		out.Files = append(out.Files, File{
			Name: f.Name, Index: f.Index, Size: f.Size, CRC32C: f.Crc32C, HasCRC: f.HasCrc32C,
			unknown: f.ProtoReflect().GetUnknown(),
		})
	}
	return out
}

func indexFromProto(x *pb.IndexSpec) IndexSpec {
	out := IndexSpec{Name: x.Name, Kind: x.Kind, Options: x.Options, unknown: x.ProtoReflect().GetUnknown()}
	for _, c := range x.Columns {
		out.Columns = append(out.Columns, Column{Name: c.Name, FieldID: c.FieldId, unknown: c.ProtoReflect().GetUnknown()})
	}
	return out
}

func timeFromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
