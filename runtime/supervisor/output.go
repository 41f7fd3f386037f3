package supervisor

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// logFormat asks Envoy for lines that split cleanly (Envoy docs: "--log-format", spdlog's %l level, %n logger, %v text).
const logFormat = "%l\t%n\t%v"

// longest is the number of bytes of one line of output that reach the log.
const longest = 16 << 10

// lineLog is a writer that logs each line written to it.
type lineLog struct {
	log *slog.Logger
	// rest is the begun line; skip is set while the tail of a line that was too long passes by.
	rest []byte
	skip bool
}

// Write takes any part of the output; it never fails.
func (l *lineLog) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, after, whole := bytes.Cut(p, []byte("\n"))
		p = after
		if !l.skip {
			l.rest = append(l.rest, line[:min(len(line), longest-len(l.rest))]...)
			l.skip = len(l.rest) == longest
		}
		if whole {
			l.flush()
		}
	}
	return n, nil
}

// flush logs the begun line.
func (l *lineLog) flush() {
	logLine(l.log, strings.TrimRight(string(l.rest), "\r"))
	l.rest, l.skip = l.rest[:0], false
}

// unescape takes back what --log-format-escaped does, but for line breaks: one message stays one line.
var unescape = strings.NewReplacer(`\'`, "'", `\"`, `"`, `\\`, `\`, `\n`, " ", `\t`, "\t")

var levels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// logLine logs one line. What does not look like Envoy's log format (a crash report, a message of the loader) is an error.
func logLine(log *slog.Logger, line string) {
	if line == "" {
		return
	}
	if strings.Contains(line, "PRIVATE KEY") {
		line = "(a line that holds a private key is left out)"
	}
	level, rest, ok := strings.Cut(unescape.Replace(line), "\t")
	at, known := levels[level]
	if !ok || !known {
		log.Error(line, "process", "envoy")
		return
	}
	logger, message, _ := strings.Cut(rest, "\t")
	log.Log(context.Background(), at, message, "process", "envoy", "logger", logger)
}
