//go:build !linux

package objstore

import (
	"errors"
	"os"
	"runtime"
)

// syncFileFlags open a file for a sync; Windows syncs only what may be written.
const syncFileFlags = os.O_RDWR

// SyncDir makes the entries of a folder durable. Windows cannot sync folders;
// NTFS keeps their changes in its journal.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return d.Close()
	}
	return errors.Join(d.Sync(), d.Close())
}

// createUnnamed: only Linux has files without a name that can be given one.
func createUnnamed(string) (tempFile, error) { return nil, errors.ErrUnsupported }
