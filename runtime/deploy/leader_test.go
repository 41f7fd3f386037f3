package deploy_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

var (
	mappings = schema.GroupVersionResource{Group: "getambassador.io", Version: "v3alpha1", Resource: "mappings"}
	leases   = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// statuses counts, by Mapping, how often its status changed.
type statuses struct {
	mu    sync.Mutex
	last  map[string]any
	turns map[string]int
}

// followStatuses watches the Mappings of a namespace until the test ends.
func followStatuses(t *testing.T, client *kubetest.Client, ns string) *statuses {
	t.Helper()
	s := &statuses{last: map[string]any{}, turns: map[string]int{}}
	w, err := client.Resource(mappings).Namespace(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			u, is := e.Object.(*unstructured.Unstructured)
			if !is || e.Type == "DELETED" {
				continue
			}
			s.mu.Lock()
			if now := u.Object["status"]; !reflect.DeepEqual(s.last[u.GetName()], now) {
				s.last[u.GetName()] = now
				s.turns[u.GetName()]++
			}
			s.mu.Unlock()
		}
	}()
	return s
}

// of returns how often the status of a Mapping changed.
func (s *statuses) of(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turns[name]
}

// leader returns the number of the process that leads, 0 for none.
func leader(t *testing.T, client *kubetest.Client, ns string) int {
	t.Helper()
	o, err := client.Resource(leases).Namespace(ns).Get(t.Context(), status.LeaseName("default"), metav1.GetOptions{})
	if err != nil {
		return 0
	}
	holder, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
	pid, err := strconv.Atoi(holder[strings.LastIndexByte(holder, '-')+1:])
	if err != nil {
		return 0
	}
	return pid
}

func TestLeaderIsKilledAndTheOtherTakesOver(t *testing.T) {
	t.Parallel()
	c, client, ns, port := bed(t)
	address, at := backend(t, "one")
	mapping := func(name string) string {
		return fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[2]s, namespace: %[1]s}, spec: {hostname: "*", prefix: /%[2]s/, service: "http://%[3]s:%[4]d", rewrite: ""}}`, ns, name, address, at)
	}
	told := followStatuses(t, client, ns)
	const many = 20
	for i := range many {
		client.Apply(mapping(fmt.Sprintf("m%d", i)))
	}
	var replicas []*gateway
	for i := range 2 {
		g := entrypoint(t, c.Config(), port, "--namespace", ns, "--single-namespace", "--envoy-outlives", "--bind-address", fmt.Sprintf("127.0.0.%d", i+1))
		g.ready()
		g.answers("/m0/", 200, "one /m0/")
		replicas = append(replicas, g)
	}
	kubetest.Eventually(t, patience, "all are told", func(context.Context) bool { return told.of(fmt.Sprintf("m%d", many-1)) == 1 })
	var one, other *gateway
	kubetest.Eventually(t, patience, "a leader", func(context.Context) bool {
		pid := leader(t, client, ns)
		for i, g := range replicas {
			if g.process.Process.Pid == pid {
				one, other = g, replicas[1-i]
			}
		}
		return one != nil
	})
	// Both serve what is new, whoever leads.
	client.Apply(mapping("both"))
	t.Logf("the leader answers after %s, the follower %s later", one.answers("/both/", 200, "one").Round(time.Millisecond), other.answers("/both/", 200, "one").Round(time.Millisecond))
	kubetest.Eventually(t, patience, "it is told", func(context.Context) bool { return told.of("both") == 1 })

	wrong := []func() int64{one.traffic("/m0/"), other.traffic("/m0/")}
	one.kill()
	begun := time.Now()
	client.Apply(mapping("orphan"))
	other.answers("/orphan/", 200, "one") // at once: who leads is nothing to the traffic
	live := time.Since(begun)
	kubetest.Eventually(t, patience, "the other replica leads and tells", func(context.Context) bool { return told.of("orphan") == 1 })
	took := time.Since(begun)
	t.Logf("a Mapping made after the leader's death is live after %s and told after %s", live.Round(time.Millisecond), took.Round(time.Millisecond))
	if pid := leader(t, client, ns); pid != other.process.Process.Pid {
		t.Errorf("process %d leads, not %d", pid, other.process.Process.Pid)
	}
	time.Sleep(2 * time.Second)
	for _, w := range wrong {
		if w() > 0 {
			t.Error("requests failed")
		}
	}
	one.start()
	one.ready()
	one.answers("/orphan/", 200, "one")
	time.Sleep(2 * time.Second)
	for i := range many {
		if n := told.of(fmt.Sprintf("m%d", i)); n != 1 {
			t.Errorf("the status of m%d changed %d times", i, n)
		}
	}
	if n, m := told.of("both"), told.of("orphan"); n != 1 || m != 1 {
		t.Errorf("the statuses of the later Mappings changed %d and %d times", n, m)
	}
}
