package kube_test

import (
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// An API server that does not serve EndpointSlices of v1: Endpoints stand in for them, and a finding says so.
func TestEndpointsWhereSlicesAreNotServed(t *testing.T) {
	c, client := alone(t, "--runtime-config=discovery.k8s.io/v1=false")
	client.Apply(definitions(t))
	client.Apply(`{apiVersion: v1, kind: Endpoints, metadata: {name: quote, namespace: default}, subsets: [{addresses: [{ip: 10.9.8.7}], ports: [{name: http, port: 8080}]}]}`)
	config := c.Config()
	wire := through(config)
	w := start(t, kube.Options{Config: config})
	addresses := func(s *snapshot.Snapshot) string {
		var all []string
		for o := range s.EndpointSlices("default", "quote") {
			for _, e := range o.Spec.(*snapshot.EndpointSlice).Endpoints {
				all = append(all, o.Kind+" "+strings.Join(e.Addresses, " "))
			}
		}
		return strings.Join(all, ", ")
	}
	w.until("Endpoints are read", func(s *snapshot.Snapshot) bool { return addresses(s) == "Endpoints 10.9.8.7" })
	if is := codes(w.now()); is != "CH-KUBE-005 EndpointSlice" {
		t.Errorf("the findings are %q", is)
	}
	for _, d := range w.now().Findings() {
		if d.Code.ID == "CH-KUBE-005" && !strings.Contains(d.Message, "endpointslices.discovery.k8s.io are not served") {
			t.Errorf("the finding is %s", d)
		}
	}
	client.Apply(`{apiVersion: v1, kind: Endpoints, metadata: {name: quote, namespace: default}, subsets: [{addresses: [{ip: 10.9.8.7}, {ip: 10.9.8.8}], ports: [{name: http, port: 8080}]}]}`)
	w.until("another endpoint", func(s *snapshot.Snapshot) bool { return addresses(s) == "Endpoints 10.9.8.7, Endpoints 10.9.8.8" })

	if err := c.RestartAPIServer(); err != nil { // as an upgrade to one that does
		t.Fatal(err)
	}
	client.Apply(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: quote-1, namespace: default, labels: {kubernetes.io/service-name: quote}}, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.9.8.6]}]}`)
	w.until("EndpointSlices are read once they are served", func(s *snapshot.Snapshot) bool {
		return addresses(s) == "EndpointSlice 10.9.8.6" && codes(s) == ""
	})
	t.Logf("requests for EndpointSlices: %+v; for Endpoints: %+v", wire.of("endpointslices"), wire.of("endpoints"))
}
