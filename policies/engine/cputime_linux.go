package engine

import (
	"syscall"
	"time"
)

// threadTime returns the processor time that the calling thread has used (getrusage(2)); ok is false where it cannot be had.
func threadTime() (t time.Duration, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_THREAD, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
