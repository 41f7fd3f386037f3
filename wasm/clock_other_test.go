//go:build !linux

package wasm

import "time"

var begun = time.Now()

// busy returns the time that has passed, where that of a thread is not to be had.
func busy() time.Duration { return time.Since(begun) }
