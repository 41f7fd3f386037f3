package wasm

import (
	"slices"
	"sync"
	"time"

	"github.com/chancery-gateway/chancery/wasm/fault"
)

// stats counts what a module does.
type stats struct {
	mu sync.Mutex
	Counts
	logs []LogLine
	// second is the one of the clock in which the last line was kept, lines how many were kept in it.
	now    func() time.Time
	second int64
	lines  int
}

// Counts is the work of a module since it was loaded.
type Counts struct {
	// Calls is how often a unit entered the module, Remembered how often a unit was answered without.
	Calls, Remembered int64
	// Kept, Skipped and Blocked count the units on which the module failed, by what became of them.
	Kept, Skipped, Blocked int64
	// Errors counts failures by code.
	Errors map[string]int64
	// Fuel and Time are sums over all calls, MaxTime and MaxFuel the greatest of one call (time is that of the processor), Pages the greatest memory seen.
	Fuel    int64
	Time    time.Duration
	MaxFuel int64
	MaxTime time.Duration
	Pages   uint32
	// LogLines is the number of lines that were logged, LogLost the number that were dropped.
	LogLines, LogLost int64
}

// LogLine is one line of a guest's log, escaped.
type LogLine struct {
	Level int32
	Text  string
}

// keptLogs is the number of log lines that a module's status shows, logRate how many lines of a second are kept at all.
const (
	keptLogs = 50
	logRate  = 100
)

func newStats(now func() time.Time) *stats {
	return &stats{Counts: Counts{Errors: map[string]int64{}}, now: now}
}

func (s *stats) spent(u usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Pages = max(s.Pages, u.pages)
}

func (s *stats) called(u usage, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Calls++
	s.Fuel += u.fuel
	s.Time += u.time
	s.MaxFuel, s.MaxTime, s.Pages = max(s.MaxFuel, u.fuel), max(s.MaxTime, u.time), max(s.Pages, u.pages)
	s.failed(err)
}

func (s *stats) failed(err error) {
	if err != nil {
		s.Errors[codeOf(err)]++
	}
}

func codeOf(err error) string {
	if c := fault.CodeOf(err); c != nil {
		return c.ID
	}
	return fault.Host.ID
}

func (s *stats) note(f func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.Counts)
}

// collect takes the log lines of a call.
func (s *stats) collect(b *sandbox) {
	if len(b.logs) == 0 && b.lost == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now().Unix(); now != s.second {
		s.second, s.lines = now, 0
	}
	keep := min(len(b.logs), logRate-s.lines)
	s.lines += keep
	s.LogLines += int64(keep)
	s.LogLost += int64(b.lost + len(b.logs) - keep)
	for _, l := range b.logs[:keep] {
		s.logs = append(s.logs, LogLine{l.level, l.text})
	}
	if over := len(s.logs) - keptLogs; over > 0 {
		s.logs = slices.Delete(s.logs, 0, over)
	}
	b.logs, b.lost = nil, 0
}

func (s *stats) read() (Counts, []LogLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.Counts
	c.Errors = make(map[string]int64, len(s.Errors))
	for k, v := range s.Errors {
		c.Errors[k] = v
	}
	return c, slices.Clone(s.logs)
}
