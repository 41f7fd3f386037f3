//go:build race

package validator

// slowness is how much more time things get under the race detector.
const slowness = 2
