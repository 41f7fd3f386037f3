package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// disconnect breaks every xDS connection of the program, as a network does, and returns their number. Neither side is asked.
func (m *mortal) disconnect() int {
	m.t.Helper()
	ends := m.adsSockets()
	if len(ends) == 0 {
		return 0
	}
	process, err := unix.PidfdOpen(m.process.Process.Pid, 0)
	if err != nil {
		m.t.Fatalf("open the program's process: %v", err)
	}
	defer unix.Close(process)
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.process.Process.Pid))
	broken := 0
	for _, path := range found {
		target, err := os.Readlink(path)
		if err != nil || !ends[target] {
			continue
		}
		var number int
		if _, err := fmt.Sscan(filepath.Base(path), &number); err != nil {
			m.t.Fatal(err)
		}
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			m.t.Fatalf("share the program's socket: %v", err)
		}
		if unix.Shutdown(fd, unix.SHUT_RDWR) == nil {
			broken++
		}
		unix.Close(fd)
	}
	return broken
}

// adsSockets are the established connections at the xDS port, as /proc names them (proc(5): net/tcp).
func (m *mortal) adsSockets() map[string]bool {
	m.t.Helper()
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		m.t.Fatal(err)
	}
	ends := map[string]bool{}
	local := fmt.Sprintf("0100007F:%04X", m.ads)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 9 && f[1] == local && f[3] == "01" {
			ends["socket:["+f[9]+"]"] = true
		}
	}
	return ends
}
