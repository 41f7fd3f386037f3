package translators_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
)

// gatewayBenchRoute is one of many HTTPRoutes with a hostname and a Service of its own.
func gatewayBenchRoute(i, version int) string {
	return gatewayObject("HTTPRoute", "a", fmt.Sprintf("r%d", i), fmt.Sprintf(
		`"parentRefs": [{"name": "g"}], "hostnames": ["h%d.example.com"], "rules": [{"matches": [{"path": {"value": "/v%d"}}], "backendRefs": [{"name": "s%d", "port": 80}]}]`, i, version, i))
}

func gatewayBenchWorld(b *testing.B, routes int) *snapshot.Snapshot {
	var docs strings.Builder
	docs.WriteString(gatewayFrame)
	for i := range routes {
		docs.WriteString(serviceJSON("a", fmt.Sprintf("s%d", i)) + gatewayBenchRoute(i, 0))
	}
	return load(b, "in.json", docs.String())
}

// BenchmarkGatewayCold compiles 5,000 HTTPRoutes from nothing.
func BenchmarkGatewayCold(b *testing.B) {
	s := gatewayBenchWorld(b, 5000)
	for b.Loop() {
		newCompiler().Compile(s)
	}
}

// BenchmarkGatewayEdit changes one HTTPRoute among 5,000.
func BenchmarkGatewayEdit(b *testing.B) {
	s := gatewayBenchWorld(b, 5000)
	c := newCompiler()
	c.Compile(s)
	version := 0
	for b.Loop() {
		b.StopTimer()
		version++
		objects, _ := parse(b, "in.json", gatewayBenchRoute(7, version))
		s = s.Derive(objects, nil, nil)
		b.StartTimer()
		c.Compile(s)
	}
}
