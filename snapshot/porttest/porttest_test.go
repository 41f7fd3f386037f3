package porttest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
)

// TestFree: nobody is given a port that another holds, however many ask at a time, and all of them can be listened on.
func TestFree(t *testing.T) {
	var mu sync.Mutex
	var all []int
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			ports := Free(t, 20)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ports...)
		})
	}
	asking.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); len(all) != 400 || n != 400 {
		t.Fatalf("%d ports, of which %d differ", len(all), n)
	}
	for _, port := range all {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
		if again, err := net.Listen("unix", fmt.Sprintf("@chancery-port-%d", port)); err == nil {
			again.Close()
			t.Errorf("port %d is not kept", port)
		}
	}
}

// TestRelease: what is given back can be had again.
func TestRelease(t *testing.T) {
	ports, release, err := Reserve(3)
	if err != nil {
		t.Fatal(err)
	}
	release()
	for _, port := range ports {
		l, err := net.Listen("unix", fmt.Sprintf("@chancery-port-%d", port))
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}
