package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time that the calling thread has used (clock_gettime(2), to the nanosecond: getrusage
// counts in ticks); ok is false where it cannot be had.
func threadTime() (t time.Duration, ok bool) {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at) != nil {
		return 0, false
	}
	return time.Duration(at.Nano()), true
}
