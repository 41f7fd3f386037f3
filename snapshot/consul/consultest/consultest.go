// Package consultest runs a real Consul agent for tests; `make servers` builds it.
package consultest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// Agent is one Consul server that keeps everything in memory.
type Agent struct {
	*consul.Client
	// Address is that of the HTTP API, host and port.
	Address    string
	Datacenter string

	t    testing.TB
	port []int
	kill func()
}

// Start starts an agent, which ends with the test.
func Start(t testing.TB, datacenter string) *Agent {
	t.Helper()
	a := &Agent{t: t, Datacenter: datacenter, port: porttest.Free(t, 4)}
	a.Address = "127.0.0.1:" + strconv.Itoa(a.port[0])
	client, err := consul.NewClient(&consul.Config{Address: a.Address})
	if err != nil {
		t.Fatal(err)
	}
	a.Client = client
	a.Restart()
	return a
}

// Restart starts an agent at the same address, which knows nothing of before, and waits until it answers.
func (a *Agent) Restart() {
	a.t.Helper()
	path := kubetest.Program(a.t, "consul", "consul-1.14.11")
	var output func() []byte
	a.kill, output = kubetest.Background(a.t, path, "agent", "-dev", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-node", "test", "-datacenter", a.Datacenter,
		"-http-port", strconv.Itoa(a.port[0]), "-server-port", strconv.Itoa(a.port[1]), "-serf-lan-port", strconv.Itoa(a.port[2]),
		"-serf-wan-port", strconv.Itoa(a.port[3]), "-dns-port", "-1", "-grpc-port", "-1", "-grpc-tls-port", "-1", "-log-level", "error")
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if nodes, _, err := a.Catalog().Nodes(nil); err == nil && len(nodes) > 0 {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("Consul is not ready\n%s", output())
		}
	}
}

// Kill ends the agent at once.
func (a *Agent) Kill() { a.kill() }

// Register puts an instance of a service into the catalog, on a node of its own: service and node are addresses, of which the
// former may be empty. An instance that is not passing has a critical check.
func (a *Agent) Register(service, id, address, node string, port int, passing bool) {
	a.t.Helper()
	status := consul.HealthPassing
	if !passing {
		status = consul.HealthCritical
	}
	_, err := a.Catalog().Register(&consul.CatalogRegistration{
		Node: "node-" + id, Address: node, SkipNodeUpdate: false,
		Service: &consul.AgentService{ID: id, Service: service, Address: address, Port: port},
		Check:   &consul.AgentCheck{Node: "node-" + id, CheckID: "check-" + id, Name: "check", ServiceID: id, Status: status},
	}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
}

// Deregister takes an instance out of the catalog.
func (a *Agent) Deregister(id string) {
	a.t.Helper()
	if _, err := a.Catalog().Deregister(&consul.CatalogDeregistration{Node: "node-" + id}, nil); err != nil {
		a.t.Fatal(err)
	}
}

// Eventually waits until ok holds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	kubetest.Eventually(t, 2*time.Minute, what, func(context.Context) bool { return ok() })
}

// Resolver returns the manifest of a ConsulResolver that asks this agent.
func (a *Agent) Resolver(namespace, name string) string {
	return fmt.Sprintf("---\n{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: %s, namespace: %s}, spec: {address: %q, datacenter: %q}}\n", name, namespace, a.Address, a.Datacenter)
}
