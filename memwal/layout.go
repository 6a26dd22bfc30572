package memwal

import "github.com/google/uuid"

// layout holds the key prefixes of one shard, each with a slash at its end,
// as the public Lance MemTable and WAL specification has them.
type layout struct {
	root     string // everything of the shard
	manifest string
	wal      string
	gc       string
	probe    string // the one object of the start-up probe; not a prefix
}

func layoutOf(shard uuid.UUID) layout {
	root := "_mem_wal/" + shard.String() + "/"
	return layout{
		root:     root,
		manifest: root + "manifest/",
		wal:      root + "wal/",
		gc:       root + "gc/",
		probe:    root + "probe",
	}
}
