//go:build !linux

package engine

import "time"

// threadTime is not to be had on this system: deadlines are those of the wall clock.
func threadTime() (time.Duration, bool) { return 0, false }
