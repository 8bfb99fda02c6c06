package delayproxy

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm sleeps to the microsecond. A goroutine in time.Sleep waits for at least a millisecond when its process has
// nothing else to do, because the runtime gives epoll its time-outs in milliseconds; a timerfd is an event like any other.
type alarm struct {
	file *os.File
}

const (
	clockMonotonic = 1
	timerNonBlock  = syscall.O_NONBLOCK
	timerCloseExec = syscall.O_CLOEXEC
)

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, timerNonBlock|timerCloseExec, 0)
	if errno != 0 {
		return nil, fmt.Errorf("delayproxy: timerfd_create: %w", errno)
	}
	return &alarm{file: os.NewFile(fd, "timerfd")}, nil
}

// sleep returns nil after d, or an error when the alarm was stopped. One goroutine at a time may sleep.
func (a *alarm) sleep(d time.Duration) error {
	raw, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	spec := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(max(int64(d), 1))} // 0 would disarm it
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
	if err != nil {
		return err
	}
	if errno != 0 {
		return fmt.Errorf("delayproxy: timerfd_settime: %w", errno)
	}
	var expirations [8]byte
	_, err = a.file.Read(expirations[:])
	return err
}

func (a *alarm) stop() { _ = a.file.Close() }
