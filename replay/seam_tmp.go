package replay

import "github.com/memwal/memwal-go/memtable"

// Live lends the memtables.
func (l *Loader) Live() []*memtable.Memtable { return l.tables }

// Settle does nothing yet.
func (l *Loader) Settle() error { return nil }
