package wasm

import "time"

// slack allows for a machine that other work shares: limits of time that are stated for a quiet machine are stretched.
func slack(d time.Duration) time.Duration { return 3 * d }
