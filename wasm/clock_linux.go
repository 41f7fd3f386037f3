package wasm

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is that of this thread: other work on the machine does not count.
func processorTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// workTime is the processor time of the whole process.
func workTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
