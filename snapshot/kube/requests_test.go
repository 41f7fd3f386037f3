package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// requests counts what goes to the API server, by path.
type requests struct {
	http.RoundTripper
	mu    sync.Mutex
	paths map[string]int
}

func (r *requests) RoundTrip(q *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.paths[q.URL.Path]++
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(q)
}

// TestWatchesAreOfKinds: many Services whose endpoints are wanted cost no request more than none at all.
func TestWatchesAreOfKinds(t *testing.T) {
	c, client, ns := bed(t)
	const many = 100
	var all strings.Builder
	for i := range many {
		fmt.Fprintf(&all, `---
{apiVersion: v1, kind: Service, metadata: {name: s%[1]d, namespace: %[2]s}, spec: {ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s%[1]d-1, namespace: %[2]s, labels: {kubernetes.io/service-name: s%[1]d}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [10.1.0.%[1]d], conditions: {ready: true}}]}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m%[1]d, namespace: %[2]s}, spec: {hostname: "*", prefix: /%[1]d/, service: s%[1]d, resolver: endpoint}}
`, i+1, ns)
	}
	client.Apply(all.String())
	asked := &requests{paths: map[string]int{}}
	config := c.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		asked.RoundTripper = next
		return asked
	})
	if s := start(t, kube.Options{Config: config, Namespace: ns}).first(); s.Len(v3alpha1.KindMapping) != many || s.Len(snapshot.KindEndpointSlice) != many || s.Len(snapshot.KindService) != many {
		t.Errorf("the first snapshot has %d Mappings, %d Services and %d EndpointSlices", s.Len(v3alpha1.KindMapping), s.Len(snapshot.KindService), s.Len(snapshot.KindEndpointSlice))
	}
	asked.mu.Lock()
	defer asked.mu.Unlock()
	for path, n := range asked.paths {
		if n > many/2 || strings.Contains(path, "/s1") || strings.Contains(path, "/m1") {
			t.Errorf("%d requests of %s", n, path)
		}
	}
	if len(asked.paths) == 0 {
		t.Error("no request was counted")
	}
}
