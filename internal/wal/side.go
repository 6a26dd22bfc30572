package wal

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/memwal/memwal-go/internal/wal/walpb"
)

// Side is what an entry holds besides rows.
type Side struct {
	Annotations []Annotation
	Journal     []JournalRecord
}

// Annotation is a pair that holds from this entry on, until another replaces it.
type Annotation struct {
	Key     string
	Value   []byte
	Deleted bool // the key is removed
}

// JournalRecord is a record of the application that lives only in the log.
type JournalRecord struct {
	Journal  string
	Sequence uint64 // numbers the records of one journal, from 1
	Payload  []byte
}

// kinds returns the record kinds that the side section holds.
func (s *Side) kinds() Kinds {
	var k Kinds
	if s == nil {
		return k
	}
	if len(s.Annotations) > 0 {
		k |= KindAnnotation
	}
	if len(s.Journal) > 0 {
		k |= KindJournal
	}
	return k
}

// encode returns the section's bytes; none for an empty section.
func (s *Side) encode() ([]byte, error) {
	if s.kinds() == 0 {
		return nil, nil
	}
	pb := &walpb.Side{}
	for _, a := range s.Annotations {
		pb.Annotations = append(pb.Annotations, &walpb.Annotation{Key: a.Key, Value: a.Value, Deleted: a.Deleted})
	}
	for _, r := range s.Journal {
		pb.Journal = append(pb.Journal, &walpb.JournalRecord{Journal: r.Journal, Sequence: r.Sequence, Payload: r.Payload})
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(pb)
	if err != nil {
		return nil, fmt.Errorf("wal: encode side section: %w", err)
	}
	return data, nil
}

// decodeSide copies everything out of data.
func decodeSide(data []byte) (*Side, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var pb walpb.Side
	if err := proto.Unmarshal(data, &pb); err != nil {
		return nil, &CorruptError{Reason: "side section", Err: err}
	}
	s := &Side{}
	for _, a := range pb.Annotations {
		s.Annotations = append(s.Annotations, Annotation{Key: a.Key, Value: a.Value, Deleted: a.Deleted})
	}
	for _, r := range pb.Journal {
		s.Journal = append(s.Journal, JournalRecord{Journal: r.Journal, Sequence: r.Sequence, Payload: r.Payload})
	}
	return s, nil
}
