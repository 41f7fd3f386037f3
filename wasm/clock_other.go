//go:build !linux

package wasm

import "time"

var begun = time.Now()

// processorTime is the time that has passed, where that of a thread is not to be had.
func processorTime() time.Duration { return time.Since(begun) }

// workTime is the same for the whole process.
func workTime() time.Duration { return time.Since(begun) }
