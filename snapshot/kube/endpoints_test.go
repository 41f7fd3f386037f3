package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// Changes of endpoints alone follow each other at once, and so do the first few of anything else; the sixth waits for the interval.
func TestEndpointsDoNotWaitForTheInterval(t *testing.T) {
	c, client, ns := bed(t)
	service := "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: %s}, spec: {ports: [{name: http, port: %d}]}}"
	slice := "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, namespace: %s, labels: {kubernetes.io/service-name: web}}, addressType: IPv4, ports: [{name: http, port: 80}], endpoints: [{addresses: [10.0.0.%d]}]}"
	client.Apply(fmt.Sprintf(service, ns, 80) + "\n---\n" + fmt.Sprintf(slice, ns, 1))
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns, MinInterval: time.Hour})
	address := func(s *snapshot.Snapshot) string {
		o := s.Get(snapshot.KindEndpointSlice, ns, "web-1")
		if o == nil {
			return ""
		}
		return fmt.Sprint(o.Spec)
	}
	w.until("the first snapshot", func(s *snapshot.Snapshot) bool { return address(s) != "" })
	for i := range 5 {
		before := address(w.now())
		client.Apply(fmt.Sprintf(slice, ns, 2+i))
		w.until("the next endpoints", func(s *snapshot.Snapshot) bool { return address(s) != before })
	}
	port := func(s *snapshot.Snapshot) string { return fmt.Sprint(s.Get(snapshot.KindService, ns, "web").Spec) }
	before := port(w.now())
	client.Apply(fmt.Sprintf(service, ns, 81))
	w.until("the first change of a Service", func(s *snapshot.Snapshot) bool { return port(s) != before })
	for i := range 8 {
		client.Apply(fmt.Sprintf(service, ns, 82+i))
		time.Sleep(50 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ports := map[string]bool{}
	for _, s := range w.all {
		ports[port(s)] = true
	}
	if len(ports) > 5 {
		t.Errorf("%d snapshots with another Service did not wait for the interval", len(ports))
	}
}
