//go:build unix

package minio

import (
	"os"
	"syscall"
)

// ownGroup keeps the signals of a terminal from the watchdog, which would die
// before it has cleaned up.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// lockFile takes a lock that all processes of the machine respect, and that
// goes with the process that holds it.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { _ = f.Close() }, nil
}
