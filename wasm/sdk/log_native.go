//go:build !wasip1

package sdk

import "log/slog"

// Log writes a line to the module's log; outside of WebAssembly, to the default logger.
func Log(level int32, text string) { slog.Info(text, "level", level) }
