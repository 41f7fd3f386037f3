package emissary

import (
	"reflect"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/translators/ir"
)

func cluster(t *testing.T, f *ir.Fragments) *ir.Cluster {
	t.Helper()
	if len(f.Clusters) != 1 {
		t.Fatalf("%d clusters, want 1: %v", len(f.Clusters), f.Diagnostics)
	}
	return f.Clusters[0]
}

// without leaves out the parts that other tests look at.
func without(c *ir.Cluster) ir.Cluster {
	d := *c
	d.Name, d.Origins = "", nil
	return d
}

func TestCluster(t *testing.T) {
	const services = `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.9, ports: [{port: 80}]}}`
	for _, c := range []struct{ spec, want, findings string }{
		{`service: web`, `"statName":"web_app","discovery":"strict_dns","host":"web.app","port":80,"service":"web","namespace":"app","connectTimeoutMillis":3000,"dnsFamily":"v4","loadBalancer":"round_robin"`, ""},
		{`service: "web:8080", dns_type: logical_dns, enable_ipv6: true, respect_dns_ttl: true, connect_timeout_ms: 5`,
			`"statName":"web_app_8080","discovery":"logical_dns","host":"web.app","port":8080,"service":"web","namespace":"app","connectTimeoutMillis":5,"dnsFamily":"auto","respectDnsTtl":true,"loadBalancer":"round_robin"`, ""},
		{`service: "127.0.0.1:8080"`, `"statName":"127_0_0_1_8080","discovery":"static","host":"127.0.0.1","port":8080,"connectTimeoutMillis":3000,"loadBalancer":"round_robin"`, ""},
		{`service: localhost, grpc: true`, `"statName":"localhost","discovery":"strict_dns","host":"localhost","port":80,"connectTimeoutMillis":3000,"dnsFamily":"v4","loadBalancer":"round_robin","http2":true`, ""},
		{`service: "https://api.example.com", host_rewrite: api.example.com`, `"statName":"api_example_com","discovery":"strict_dns","host":"api.example.com","port":443,"connectTimeoutMillis":3000,"dnsFamily":"v4","loadBalancer":"round_robin","tls":{"sni":"api.example.com"}`, "info CH-CLUSTER-004 spec.service"},
		{`service: web, resolver: endpoint`, `"statName":"web_app","discovery":"eds","endpointSet":"k8s/app/web/80","service":"web","namespace":"app","connectTimeoutMillis":3000,"loadBalancer":"round_robin"`, ""},
		{`service: "web:81", resolver: endpoint`, `"statName":"web_app_81","discovery":"eds","endpointSet":"k8s/app/web/81","service":"web","namespace":"app","connectTimeoutMillis":3000,"loadBalancer":"round_robin"`, "warning CH-CLUSTER-009 spec.service"},
		{`service: no-such.ns, resolver: endpoint`, `"statName":"no_such_ns","discovery":"eds","endpointSet":"k8s/ns/no-such/80","service":"no-such","namespace":"ns","connectTimeoutMillis":3000,"loadBalancer":"round_robin"`, "warning CH-CLUSTER-009 spec.service"},
		{`service: "10.1.2.3", resolver: endpoint, load_balancer: {policy: least_request}`, `"statName":"10_1_2_3","discovery":"static","host":"10.1.2.3","port":80,"connectTimeoutMillis":3000,"loadBalancer":"least_request"`, ""},
		{`service: api.example.com, resolver: endpoint`, `"statName":"api_example_com","discovery":"strict_dns","host":"api.example.com","port":80,"connectTimeoutMillis":3000,"dnsFamily":"v4","loadBalancer":"round_robin"`, ""},
		{`service: web, stats_name: mine, cluster_idle_timeout_ms: 0, cluster_max_connection_lifetime_ms: 9, keepalive: {probes: 1, idle_time: 2, interval: 3}, circuit_breakers: [{priority: high, max_requests: 5}, {max_retries: 0}]`,
			`"statName":"mine","discovery":"strict_dns","host":"web.app","port":80,"service":"web","namespace":"app","connectTimeoutMillis":3000,"idleTimeoutMillis":0,"maxConnectionMillis":9,"dnsFamily":"v4","loadBalancer":"round_robin",` +
				`"circuitBreakers":[{"priority":"default","maxRetries":0},{"priority":"high","maxRequests":5}],"keepalive":{"probes":1,"time":2,"interval":3}`, ""},
		{`service: web, resolver: endpoint, health_checks: [{timeout: 1s, health_check: {http: {path: /healthz, hostname: h, expected_statuses: [{min: 200, max: 204}]}}}]`,
			`"statName":"web_app","discovery":"eds","endpointSet":"k8s/app/web/80","service":"web","namespace":"app","connectTimeoutMillis":3000,"loadBalancer":"round_robin",` +
				`"healthChecks":[{"timeoutMillis":1000,"intervalMillis":5000,"healthyThreshold":1,"unhealthyThreshold":2,"http":{"path":"/healthz","host":"h","expectedStatuses":[{"from":200,"to":205}]}}]`, ""},
	} {
		t.Run(c.spec, func(t *testing.T) {
			f := lowerMapping(t, "prefix: /, "+c.spec, services)
			want(t, f, c.findings)
			got := cluster(t, f)
			equal(t, "cluster", without(got), `{"name":"",`+c.want+`}`)
			if (got.EndpointSet != "") != (len(f.EndpointSets) == 1) || got.EndpointSet != "" && f.EndpointSets[0].Name != got.EndpointSet {
				t.Errorf("endpoint requests %+v", f.EndpointSets)
			}
		})
	}
}

// Equal upstreams share one cluster however they are written (B105); differing ones never do (B103, B104).
func TestClusterNames(t *testing.T) {
	name := func(spec string) string { return cluster(t, lowerMapping(t, "prefix: /, "+spec)).Name }
	if a, b := name(`service: quote`), name(`service: "http://quote.app:80"`); a != b {
		t.Errorf("%s and %s are one upstream", a, b)
	}
	long := "svc45678901234567890123456789012"
	seen := map[string]string{}
	for _, spec := range []string{
		`service: quote`, `service: "https://quote"`, `service: "quote:81"`, `service: quote, grpc: true`, `service: quote, connect_timeout_ms: 1000`,
		`service: quote, cluster_tag: t`, `service: quote, stats_name: s`, `service: quote.other`, `service: quote, circuit_breakers: [{max_requests: 1}]`,
		`service: quote, resolver: endpoint`, `service: quote, enable_ipv6: true`, `service: quote, dns_type: logical_dns`,
		`service: ` + long + `-first`, `service: ` + long + `-second`, `service: "http://this-service-name-is-much-too-long-for-a-cluster.alpha"`,
		`service: "http://this-service-name-is-much-too-long-for-a-cluster.beta"`,
	} {
		n := name(spec)
		if other, taken := seen[n]; taken {
			t.Errorf("%s and %s share %s", spec, other, n)
		}
		if len(n) > 60 || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("name %s", n)
		}
		seen[n] = spec
	}
}

// The names in statistics are whole, unique and stable; the user's own wins (B106).
func TestStatNames(t *testing.T) {
	for spec, want := range map[string]string{
		`service: svc45678901234567890123456789012-first`:  "svc45678901234567890123456789012_first_app",
		`service: svc45678901234567890123456789012-second`: "svc45678901234567890123456789012_second_app",
		`service: a.b, stats_name: mine`:                   "mine",
		`service: "https://a.b:80"`:                        "a_b_80",
	} {
		if got := cluster(t, lowerMapping(t, "prefix: /, "+spec)).StatName; got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}

// Every field of a cluster but Name and Origins changes its name.
func TestClusterIdentityIsComplete(t *testing.T) {
	number, small := int64(1), uint32(1)
	full := func() *ir.Cluster {
		n, m, s := number, number, small
		return &ir.Cluster{
			IdleTimeoutMillis: &n, MaxConnectionMillis: &m,
			CircuitBreakers: []ir.CircuitBreaker{{MaxConnections: &s, MaxPendingRequests: &s, MaxRequests: &s, MaxRetries: &s}},
			Keepalive:       &ir.Keepalive{Probes: &s, Time: &s, Interval: &s}, More: []ir.Target{{}},
			HealthChecks: []ir.HealthCheck{{
				HTTP: &ir.HTTPHealthCheck{RequestHeaders: ir.HeaderChanges{Add: []ir.HeaderValue{{}}, Remove: []string{"a"}}, ExpectedStatuses: []ir.StatusRange{{}}},
				GRPC: &ir.GRPCHealthCheck{},
			}},
			TLS:        &ir.UpstreamTLS{VerifySAN: []string{"a"}, Params: ir.TLSParams{CipherSuites: []string{"a"}, Curves: []string{"a"}, ALPN: []string{"a"}}},
			HeaderCase: []string{"a"},
		}
	}
	base := identity(full(), "", nil)
	changed := 0
	var walk func(v reflect.Value, path string, root *ir.Cluster)
	walk = func(v reflect.Value, path string, root *ir.Cluster) {
		check := func() {
			changed++
			if identity(root, "", nil) == base {
				t.Errorf("%s is not part of the identity", path)
			}
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if path == "" && (name == "Name" || name == "Origins") {
					continue
				}
				walk(v.Field(i), path+"."+name, root)
			}
		case reflect.Pointer:
			if v.IsNil() {
				t.Fatalf("%s is not filled in by the test", path)
			}
			// A value of its own: the pointers above share theirs.
			old := v.Elem().Interface()
			fresh := reflect.New(v.Type().Elem())
			fresh.Elem().Set(reflect.ValueOf(old))
			v.Set(fresh)
			walk(v.Elem(), path, root)
			v.Set(reflect.Zero(v.Type()))
			check()
			v.Set(fresh)
		case reflect.Slice:
			if v.Len() == 0 {
				t.Fatalf("%s is not filled in by the test", path)
			}
			walk(v.Index(0), path+"[0]", root)
		case reflect.String:
			old := v.String()
			v.SetString("changed")
			check()
			v.SetString(old)
		case reflect.Bool:
			v.SetBool(!v.Bool())
			check()
			v.SetBool(!v.Bool())
		case reflect.Int64:
			v.SetInt(v.Int() + 1)
			check()
			v.SetInt(v.Int() - 1)
		case reflect.Uint32:
			v.SetUint(v.Uint() + 1)
			check()
			v.SetUint(v.Uint() - 1)
		default:
			t.Fatalf("%s has a kind that the test does not know: %s", path, v.Kind())
		}
	}
	root := full()
	walk(reflect.ValueOf(root).Elem(), "", root)
	if changed < 40 {
		t.Errorf("only %d fields looked at", changed)
	}
	if identity(full(), "tag", nil) == base {
		t.Error("the tag is not part of the identity")
	}
}

func TestLoadBalancer(t *testing.T) {
	f := lowerMapping(t, `prefix: /, rewrite: "", service: web, resolver: endpoint, load_balancer: {policy: ring_hash, cookie: {name: sticky, path: /, ttl: 600s}}`,
		`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}`)
	want(t, f, "")
	if cluster(t, f).LoadBalancer != "ring_hash" {
		t.Errorf("policy %s", cluster(t, f).LoadBalancer)
	}
	equal(t, "hash", route(t, f).Route.Forward.Hash, `[{"cookie":{"name":"sticky","path":"/","ttlSeconds":600}}]`)

	// The Module's load balancer goes with any resolver.
	f = lowerMapping(t, `prefix: /, service: web`, `{kind: Module, metadata: {name: ambassador}, spec: {config: {load_balancer: {policy: maglev, header: X-User}}}}`)
	want(t, f, "")
	if cluster(t, f).LoadBalancer != "maglev" {
		t.Errorf("policy %s", cluster(t, f).LoadBalancer)
	}
	equal(t, "hash", route(t, f).Route.Forward.Hash, `[{"header":"x-user"}]`)
}

// TestFaultsAreToldAtOnce: a service or resolver that cannot be used hides nothing else that is wrong.
func TestFaultsAreToldAtOnce(t *testing.T) {
	f := lowerMapping(t, `prefix: /, service: "a}:80", resolver: no-such-resolver, tls: no-such-context, connect_timeout_ms: 0, load_balancer: {policy: ring_hash}`)
	want(t, f, "error CH-CLUSTER-001 spec.service; error CH-CLUSTER-002 spec.resolver; error CH-CLUSTER-003 spec.tls; error CH-CLUSTER-007 spec.connect_timeout_ms; error CH-CLUSTER-006 spec.load_balancer")
	if len(f.Routes) > 0 || len(f.Clusters) > 0 {
		t.Error("the Mapping is served")
	}
	f = lowerMapping(t, `prefix: /, service: web, resolver: no-such-resolver, load_balancer: {policy: maglev}`)
	want(t, f, "error CH-CLUSTER-002 spec.resolver; error CH-CLUSTER-006 spec.load_balancer")
}

// A resolver counts by its name, wherever it comes from (B053), and the Module's default too.
func TestResolvers(t *testing.T) {
	const service = `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}`
	const module = `{kind: Module, metadata: {name: ambassador, namespace: gw}, spec: {config: {resolver: my-eps, load_balancer: {policy: round_robin}}}}`
	for _, c := range []struct {
		spec      string
		docs      []string
		discovery ir.Discovery
		findings  string
	}{
		{"", []string{service, module, `{kind: KubernetesEndpointResolver, metadata: {name: my-eps, namespace: gw}}`}, ir.DiscoveryEDS, ""},
		{"resolver: kubernetes-service", []string{service, module}, ir.DiscoveryStrictDNS, ""},
		{"resolver: kubernetes-endpoint", []string{service}, ir.DiscoveryEDS, ""},
		{"", []string{module}, "", "error CH-CLUSTER-002 spec"},
		{"resolver: dc1", []string{`{kind: ConsulResolver, metadata: {name: dc1}, spec: {address: "consul:8500", datacenter: dc1}}`}, ir.DiscoveryEDS, ""},
		{"resolver: dc1, load_balancer: {policy: least_request}", []string{`{kind: ConsulResolver, metadata: {name: dc1, namespace: zz}, spec: {address: "consul:8500"}}`}, ir.DiscoveryEDS, ""},
		{"resolver: mine", []string{service, `{kind: KubernetesServiceResolver, metadata: {name: mine}}`, `{kind: KubernetesEndpointResolver, metadata: {name: mine, namespace: zz}}`}, ir.DiscoveryStrictDNS, ""},
	} {
		f := lowerMapping(t, "prefix: /, service: web, "+c.spec, c.docs...)
		want(t, f, c.findings)
		if c.discovery == "" {
			if len(f.Routes) > 0 {
				t.Errorf("%s %v: a route without resolver", c.spec, c.docs)
			}
			continue
		}
		if got := cluster(t, f).Discovery; got != c.discovery {
			t.Errorf("%s: %s, want %s", c.spec, got, c.discovery)
		}
	}
	w := newWorld(t, `{kind: KubernetesServiceResolver, metadata: {name: endpoint}}`)
	want(t, w.lower(t, "KubernetesServiceResolver/endpoint"), "error CH-CLUSTER-002 metadata.name")
	w = newWorld(t, `{kind: ConsulResolver, metadata: {name: dc1}}`)
	want(t, w.lower(t, "ConsulResolver/dc1"), "error CH-CLUSTER-002 spec.address")
}

// A service of Consul is asked for by its own name; namespaces and ports mean nothing there.
func TestConsulService(t *testing.T) {
	resolver := `{kind: ConsulResolver, metadata: {name: dc1, namespace: zz}, spec: {address: "consul:8500"}}`
	f := lowerMapping(t, `prefix: /, service: "https://web-1", resolver: dc1`, resolver)
	c := cluster(t, f)
	if c.EndpointSet != "consul/zz/dc1/web-1" || c.TLS == nil || c.Host != "" || c.Port != 0 {
		t.Errorf("%+v", c)
	}
	equal(t, "request", f.EndpointSets, `[{"Name":"consul/zz/dc1/web-1","Namespace":"zz","Service":"consul:dc1:web-1","Port":0,"PortName":"","Resolver":{"group":"getambassador.io","kind":"ConsulResolver","namespace":"zz","name":"dc1"}}]`)
	want(t, lowerMapping(t, `prefix: /, service: "web-1:8080", resolver: dc1`, resolver), "warning CH-CLUSTER-001 spec.service")
}

func TestOwnNamespaceServices(t *testing.T) {
	module := `{kind: Module, metadata: {name: ambassador}, spec: {config: {use_ambassador_namespace_for_service_resolution: true}}}`
	c := cluster(t, lowerMapping(t, `prefix: /, service: web`, module))
	if c.Host != "web" || c.Namespace != "gw" {
		t.Errorf("host %s in %s", c.Host, c.Namespace)
	}
}
