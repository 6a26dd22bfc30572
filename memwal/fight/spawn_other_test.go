//go:build unix && !linux

package fight

import "syscall"

// attributes of a child. A process group of its own that has lost its parent and
// has a stopped process in it gets SIGHUP and SIGCONT (POSIX.1, _exit): so a
// stopped child does not outlive its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
