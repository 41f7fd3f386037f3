package kube_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// TestEndpointsDoNotWaitForTheInterval: changes of endpoints alone follow each other at once; any other change waits for the interval.
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
	before := w.now()
	client.Apply(fmt.Sprintf(service, ns, 81))
	time.Sleep(300 * time.Millisecond)
	if w.now() != before {
		t.Error("a change of a Service did not wait for the interval")
	}
}
