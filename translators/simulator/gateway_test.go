package simulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ir"
)

type object = map[string]any

// gatewayWorld makes random Gateways, each on an address of its own, with HTTPRoutes to Services svc-0, svc-1 ...
func (g *generator) gatewayWorld(n int, certificate, key []byte) []object {
	meta := func(name string) object { return object{"name": name, "namespace": "default"} }
	named := func(kind, name string, spec object) object {
		return object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": meta(name), "spec": spec}
	}
	hostname := func() string { return pick(g, "a.test", "*.test", "*.a.test", "b.a.test", "d.test", "*.example") }
	all := []object{
		named("GatewayClass", "gc", object{"controllerName": gatewayapi.Controllers[0]}),
		{"apiVersion": "v1", "kind": "Secret", "metadata": meta("cert"), "type": "kubernetes.io/tls",
			"data": object{"tls.crt": base64.StdEncoding.EncodeToString(certificate), "tls.key": base64.StdEncoding.EncodeToString(key)}},
	}
	for i, port := range g.backends {
		all = append(all,
			object{"apiVersion": "v1", "kind": "Service", "metadata": meta(fmt.Sprintf("svc-%d", i)), "spec": object{"ports": []object{{"port": 80}}}},
			object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": []object{{"port": port}}, "endpoints": []object{{"addresses": []string{"127.0.0.1"}}},
				"metadata": object{"name": fmt.Sprintf("svc-%d", i), "namespace": "default", "labels": object{"kubernetes.io/service-name": fmt.Sprintf("svc-%d", i)}}})
	}
	for i := range n {
		listeners := []object{}
		for j := range 1 + g.IntN(4) {
			l := object{"name": fmt.Sprintf("l%d", j), "port": 80, "protocol": "HTTP"}
			if g.chance(50) {
				l["port"], l["protocol"], l["tls"] = 443, "HTTPS", object{"certificateRefs": []object{{"name": "cert"}}}
			}
			if g.chance(70) {
				l["hostname"] = hostname()
			}
			listeners = append(listeners, l)
		}
		all = append(all, named("Gateway", fmt.Sprintf("g-%d", i), object{"gatewayClassName": "gc", "listeners": listeners,
			"addresses": []object{{"value": fmt.Sprintf("127.0.%d.%d", 3+i/200, 1+i%200)}}}))
		for j := range 1 + g.IntN(3) {
			rules := []object{}
			for range 1 + g.IntN(4) {
				rules = append(rules, g.httpRule())
			}
			parent := object{"name": fmt.Sprintf("g-%d", i)}
			if g.chance(30) {
				parent["sectionName"] = "l0"
			}
			spec := object{"parentRefs": []object{parent}, "rules": rules}
			if g.chance(60) {
				spec["hostnames"] = []string{hostname(), hostname()}
			}
			all = append(all, named("HTTPRoute", fmt.Sprintf("r-%d-%d", i, j), spec))
		}
	}
	return all
}

func (g *generator) httpRule() object {
	backends := []object{}
	for len(backends) == 0 || g.chance(40) {
		backends = append(backends, object{"name": pick(g, "svc-0", "svc-1", "svc-2", "svc-3", "absent"), "port": 80, "weight": pick(g, 0, 1, 1, 5)})
	}
	rule := object{"backendRefs": backends}
	if g.chance(80) {
		m := object{"path": object{"type": pick(g, "PathPrefix", "PathPrefix", "Exact"), "value": pick(g, "/", "/a", "/a/b", "/b", "/a/")}}
		if g.chance(20) {
			m["path"] = object{"type": "RegularExpression", "value": pick(g, "/a.*", "/[ab]/.*", "/")}
		}
		if g.chance(25) {
			m["headers"] = []object{{"name": pick(g, "x-a", "X-B"), "value": pick(g, "a", "ab", "[ab]+"), "type": pick(g, "Exact", "RegularExpression")}}
		}
		if g.chance(20) {
			m["method"] = pick(g, "GET", "POST")
		}
		if g.chance(20) {
			m["queryParams"] = []object{{"name": "q", "value": "a"}}
		}
		rule["matches"] = []object{m}
	}
	switch g.IntN(6) {
	case 0:
		r := object{"statusCode": pick(g, 301, 302, 307)}
		if g.chance(50) {
			r["scheme"] = pick(g, "http", "https")
		}
		if g.chance(50) {
			r["hostname"] = "r.test"
		}
		if g.chance(30) {
			r["port"] = pick(g, 80, 443, 8443)
		}
		if g.chance(40) {
			r["path"] = object{"type": "ReplaceFullPath", "replaceFullPath": "/full"}
		} else if g.chance(50) {
			r["path"] = object{"type": "ReplacePrefixMatch", "replacePrefixMatch": pick(g, "/", "/p", "/p/")}
		}
		rule["filters"] = []object{{"type": "RequestRedirect", "requestRedirect": r}}
	case 1, 2:
		r := object{"path": object{"type": "ReplacePrefixMatch", "replacePrefixMatch": pick(g, "/", "", "/z", "/z/")}}
		if g.chance(40) {
			r["path"] = object{"type": "ReplaceFullPath", "replaceFullPath": pick(g, "/", `/full\1`)}
		}
		if g.chance(40) {
			r["hostname"] = "up.test"
		}
		rule["filters"] = []object{{"type": "URLRewrite", "urlRewrite": r}}
	}
	return rule
}

// compileObjects compiles the objects and makes each route of the program tell its name; a route that stands in several virtual
// hosts has one.
func compileObjects(t *testing.T, objects []object, backends int) *ir.Program {
	t.Helper()
	var decoded []*snapshot.Object
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		d, found := api.Decode(text, snapshot.Source{}, nil)
		if d == nil {
			t.Fatalf("%s: %v", text, found)
		}
		decoded = append(decoded, d)
	}
	f := emissary.New(emissary.Options{})
	r := translators.New(translators.Options{FrontEnds: []translators.FrontEnd{f, gatewayapi.New(f, gatewayapi.Options{})}}).Compile(snapshot.Empty().Derive(decoded, nil, nil))
	p := *r.Program
	names := map[string]string{}
	p.Clusters = nil
	for _, c := range r.Program.Clusters {
		for i := range backends {
			if c.Service == fmt.Sprintf("svc-%d", i) {
				n := *c
				n.Name = clusterName(i)
				names[c.Name] = n.Name
				p.Clusters = append(p.Clusters, &n)
			}
		}
	}
	told := map[*ir.Route]*ir.Route{}
	p.RouteConfigs = nil
	for _, c := range r.Program.RouteConfigs {
		config := *c
		config.VirtualHosts = nil
		for _, v := range c.VirtualHosts {
			host := *v
			host.Routes = nil
			for _, route := range v.Routes {
				n := told[route]
				if n == nil {
					copied := *route
					n = &copied
					n.Name = fmt.Sprintf("route-%d", len(told))
					n.ResponseHeaders.Add = append([]ir.HeaderValue{{Name: "x-route", Value: n.Name}, {Name: "x-path", Value: "%REQ(:PATH)%"}}, n.ResponseHeaders.Add...)
					if n.Forward != nil {
						forward := *n.Forward
						forward.Clusters = nil
						for _, w := range route.Forward.Clusters {
							w.Cluster = names[w.Cluster]
							forward.Clusters = append(forward.Clusters, w)
						}
						n.Forward = &forward
					}
					told[route] = n
				}
				host.Routes = append(host.Routes, n)
			}
			config.VirtualHosts = append(config.VirtualHosts, &host)
		}
		p.RouteConfigs = append(p.RouteConfigs, &config)
	}
	p.Listeners = nil
	for i, l := range r.Program.Listeners {
		n := *l
		n.Address, n.Port = fmt.Sprintf("127.0.3.%d", i+1), 0 // the OS picks
		p.Listeners = append(p.Listeners, &n)
	}
	return &p
}

// TestGatewaysAgainstEnvoy compiles random Gateways and routes, runs the program on a real Envoy and compares every answer with
// the simulator's. CHANCERY_SEED repeats a run.
func TestGatewaysAgainstEnvoy(t *testing.T) {
	envoyPath(t)
	seed := uint64(1)
	if s := os.Getenv("CHANCERY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("CHANCERY_SEED: %v", err)
		}
		seed = n
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2)), backends: startBackends(t, 4)}
	certificate, key := selfSigned(t)
	p := compileObjects(t, g.gatewayWorld(40, certificate, key), len(g.backends))
	if len(p.Listeners) < 40 {
		t.Fatalf("%d listeners", len(p.Listeners))
	}
	ports := startEnvoy(t, staticConfig(t, p))
	for _, l := range p.Listeners {
		l.Port = ports[l.Name]
	}
	c := &client{connections: map[string]*wire{}}
	defer c.close()
	const requests = 3000
	kinds := map[OutcomeKind]int{}
	for range requests {
		l := p.Listeners[g.IntN(len(p.Listeners))]
		r := g.request(l)
		trace := Simulate(p, r)
		have, err := c.send(net.JoinHostPort(l.Address, strconv.Itoa(int(l.Port))), r)
		if err != nil {
			t.Fatalf("%s at %s: %v", r, l.Name, err)
		}
		kinds[trace.Outcomes[0].Kind]++
		if problem := explains(&trace, have, g.backends); problem != "" {
			t.Fatalf("seed %d: %s at %s headers %v sni %q: %s\nhave %+v\nwant %s", seed, r, l.Name, r.Headers, r.SNI, problem, have, trace.Text())
		}
	}
	for _, k := range []OutcomeKind{Forwarded, Redirected, Answered, NotFound, Refused} {
		if seed == 1 && kinds[k] < requests/500 {
			t.Errorf("seed %d: only %d outcomes of kind %q: %v", seed, kinds[k], k, kinds)
		}
	}
}
