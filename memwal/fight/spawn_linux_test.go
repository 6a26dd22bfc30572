package fight

import "syscall"

// attributes of a child. Its own process group keeps a terminal's signals from it.
// It dies with the thread that has started it, even while it is stopped: see
// spawner.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
