package wasm

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is that of this thread: other work on the machine does not count.
func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
