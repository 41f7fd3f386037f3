package wasm

import (
	"time"

	"github.com/chancery-gateway/chancery/wasm/abi"
)

// Limits that apply where neither manifest nor grant says anything. They fit a Go guest that works on JSON of some
// hundred KiB: such a guest needs 130 to 190 pages and some 4 million units per 100 KiB.
const (
	DefaultPages        = 512
	DefaultFuel         = 200_000_000
	DefaultMilliseconds = 2000
	DefaultInputBytes   = 4 << 20
	DefaultOutputBytes  = 4 << 20
)

// Bounds that no grant can lift.
const (
	// maxPages bounds the memory of one instance to 128 MiB, so that one bulk operation, which nothing can interrupt, stays short.
	maxPages = 2048
	// maxModuleBytes bounds the size of a module.
	maxModuleBytes = 64 << 20
	// maxManifestBytes bounds the manifest section.
	maxManifestBytes = 256 << 10
	// maxKinds bounds the kinds that a manifest names, maxFields the fields of one of them.
	maxKinds, maxFields = 64, 64
	// startMilliseconds bounds instantiation and configuration.
	startMilliseconds = 5000
)

// effective returns the limits that hold: what the manifest asks for, or the default, and never more than granted.
func effective(manifest, grant abi.Limits) abi.Limits {
	return abi.Limits{
		Pages:        min(least(manifest.Pages, grant.Pages, DefaultPages), maxPages),
		Fuel:         least(manifest.Fuel, grant.Fuel, DefaultFuel),
		Milliseconds: least(manifest.Milliseconds, grant.Milliseconds, DefaultMilliseconds),
		InputBytes:   least(manifest.InputBytes, grant.InputBytes, DefaultInputBytes),
		OutputBytes:  least(manifest.OutputBytes, grant.OutputBytes, DefaultOutputBytes),
	}
}

// least returns the smaller of wish and grant. A wish of 0 is the default, or the grant where that is set; without a
// grant no more than the default is given.
func least[T int | int64 | uint32](wish, grant, standard T) T {
	if grant <= 0 {
		grant = standard
	}
	if wish <= 0 {
		return grant
	}
	return min(wish, grant)
}

func budgetOf(l abi.Limits) budget {
	return budget{fuel: l.Fuel, time: time.Duration(l.Milliseconds) * time.Millisecond, input: l.InputBytes, output: l.OutputBytes}
}

// budget is what one call may use.
type budget struct {
	fuel          int64
	time          time.Duration
	input, output int
}
