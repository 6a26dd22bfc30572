package manifest

import (
	"testing"

	"github.com/memwal/memwal-go/internal/wal"
)

func TestRecycleFloorIsTheLowestThatHolds(t *testing.T) {
	at := func(plane string, kind Kind, state State, pos uint64) Floor {
		return Floor{Plane: plane, Kind: kind, State: state, Tuple: wal.Tuple{Position: pos}}
	}
	for _, c := range []struct {
		name   string
		floors []Floor
		want   uint64
	}{
		{"none", nil, 0},
		{"rows", []Floor{at(PlaneRows, Snapshot, Live, 7)}, 7},
		{"an index behind", []Floor{at(PlaneRows, Snapshot, Live, 7), at("index/a", Snapshot, Live, 3)}, 3},
		{"nothing published", []Floor{at(PlaneRows, Snapshot, Live, 0), at("consumer/a", Cursor, Live, 3)}, 0},
		{"a consumer behind", []Floor{at("consumer/a", Cursor, Live, 2), at(PlaneRows, Snapshot, Live, 7)}, 2},
		{"a consumer given up", []Floor{at("consumer/a", Cursor, Invalidated, 2), at(PlaneRows, Snapshot, Live, 7)}, 7},
		{"the journal does not count", []Floor{at(PlaneJournal, NoSnapshot, Live, 0), at(PlaneRows, Snapshot, Live, 7)}, 7},
	} {
		if got := (&Manifest{Floors: c.floors}).RecycleFloor(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := (&Manifest{Legacy: true, replayAfter: 5}).RecycleFloor(); got != 5 {
		t.Errorf("legacy: %d, want 5", got)
	}
}
