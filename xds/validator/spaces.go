package validator

import (
	"bufio"
	"fmt"
	"os"
	"syscall"
)

// spaces are the namespaces that a child has for itself.
type spaces int

const (
	noSpaces   spaces = iota
	ownNetwork        // for root where user namespaces are forbidden
	ownUser           // user and network
)

func (s spaces) String() string {
	return [...]string{"no namespaces", "a network namespace", "a user and a network namespace"}[s]
}

// fewer returns what to try where s is forbidden.
func (s spaces) fewer() spaces {
	if s == ownUser && os.Geteuid() == 0 {
		return ownNetwork
	}
	return noSpaces
}

// attributes are those of a process that lives in the namespaces, in a group of its own, and not longer than the thread that
// starts it. In a user namespace it has the identities that it has outside, so that every file is to it what it is to the
// traffic's Envoy, but no power over anything outside.
func (s spaces) attributes() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if s == noSpaces {
		return attr, nil
	}
	attr.Cloneflags = syscall.CLONE_NEWNET
	if s != ownUser {
		return attr, nil
	}
	attr.Cloneflags |= syscall.CLONE_NEWUSER
	var err error
	if uid := os.Geteuid(); uid != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		return attr, nil
	}
	attr.GidMappingsEnableSetgroups = true
	if attr.UidMappings, err = identities("/proc/self/uid_map"); err == nil {
		attr.GidMappings, err = identities("/proc/self/gid_map")
	}
	return attr, err
}

// identities returns the mapping of every identity that there is to itself (user_namespaces(7)).
func identities(path string) ([]syscall.SysProcIDMap, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []syscall.SysProcIDMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &inside, &outside, &size); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: size})
	}
	return out, nil
}
