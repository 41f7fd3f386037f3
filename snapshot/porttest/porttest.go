// Package porttest gives tests numbers of ports for the programs that they start. A number that the kernel chooses and that is given
// back is soon another's: of a test that runs beside this one, or of a connection. These lie below what the kernel chooses from, and
// nobody else who asks here gets one before the test is over.
package porttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

const lowest = 10_000

// Free returns numbers of ports that nobody uses, all different, and keeps them for the test until it ends.
func Free(t testing.TB, n int) []int {
	t.Helper()
	ports, release, err := Reserve(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return ports
}

// Reserve is Free for what outlives a test: the numbers are kept until they are released or the process ends.
func Reserve(n int) (ports []int, release func(), err error) {
	var locks []net.Listener
	release = func() {
		for _, l := range locks {
			l.Close()
		}
	}
	for tries := 0; len(ports) < n; tries++ {
		if tries > 1000*n {
			release()
			return nil, nil, errors.New("no port is free")
		}
		port := lowest + rand.IntN(ephemeral()-lowest)
		lock, err := net.Listen("unix", fmt.Sprintf("@chancery-port-%d", port)) // no file: the name goes with the process
		if err != nil {
			continue // another test has it
		}
		if !unused(port) {
			lock.Close()
			continue
		}
		ports, locks = append(ports, port), append(locks, lock)
	}
	return ports, release, nil
}

// unused reports whether a port is free for TCP and UDP at all addresses.
func unused(port int) bool {
	address := fmt.Sprintf(":%d", port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	l.Close()
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// ephemeral is the lowest port that the kernel chooses by itself.
func ephemeral() int {
	low := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(text), &low) // the usual one stands otherwise
	}
	if low < lowest+1000 { // there is no room below
		return 65536
	}
	return low
}
