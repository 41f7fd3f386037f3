package translators_test

import (
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/manifest"
	"github.com/chancery-gateway/chancery/translators/ir"
	"github.com/chancery-gateway/chancery/translators/simulator"
)

// TestServiceMoves gives the gateway's own services other addresses: each has another cluster then, and routes do not change.
func TestServiceMoves(t *testing.T) {
	world := func(port int) string {
		return fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: gw}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: gw}, spec: {hostname: "*", prefix: /, service: svc}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: a, namespace: gw}, spec: {auth_service: "auth:%[1]d"}}
---
{apiVersion: getambassador.io/v3alpha1, kind: RateLimitService, metadata: {name: r, namespace: gw}, spec: {service: "rl:%[1]d", protocol_version: v3}}
---
{apiVersion: getambassador.io/v3alpha1, kind: LogService, metadata: {name: l, namespace: gw}, spec: {service: "log:%[1]d", driver: http, protocol_version: v3}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TracingService, metadata: {name: t, namespace: gw}, spec: {service: "zipkin:%[1]d", driver: zipkin}}
`, port)
	}
	c := newCompiler()
	first := load(t, "input.yaml", world(80))
	before := c.Compile(first)
	objects, _ := parse(t, "input.yaml", world(81))
	next := first.Derive(objects, nil, nil)
	after := c.Compile(next)
	cold := newCompiler().Compile(next)
	moved := map[string]bool{}
	for url, list := range after.Resources {
		for i, r := range list {
			if w := cold.Resources[url][i]; w.Name != r.Name || w.Version != r.Version {
				t.Errorf("%s %s is not as from scratch", url, r.Name)
			}
			if b := before.Resources[url][i]; b != r {
				moved[r.Name] = true
				if url == ir.TypeRouteConfig {
					t.Errorf("%s %s changes", url, r.Name)
				}
			}
		}
	}
	if len(moved) != 5 || len(after.Diagnostics) != len(before.Diagnostics) {
		t.Errorf("moved: %v", moved)
	}
	for _, d := range after.Diagnostics {
		if d.Severity == snapshot.Error {
			t.Error(d)
		}
	}
}

// TestBrokenDocumentCloses: a document that cannot be parsed, but seems to be an AuthService or a Host, opens nothing.
func TestBrokenDocumentCloses(t *testing.T) {
	const listener = `{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: gw}, spec: {port: 8080, protocol: HTTP, securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}`
	const host = `{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h, namespace: gw}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}`
	const mapping = `{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: gw}, spec: {hostname: "*", prefix: /, service: svc}}`
	for _, c := range []struct {
		name, broken, rest string
		status             uint32
	}{
		{"auth in blocks", "apiVersion: getambassador.io/v3alpha1\nkind: AuthService\nmetadata: {name: a}\nspec: {auth_service: [}\n", host, 500},
		{"auth in JSON", `{"apiVersion": "getambassador.io/v3alpha1", "kind": "AuthService", "metadata": {"name": "a"}, "spec": {]}`, host, 500},
		{"host", "kind: \"Host\"\napiVersion: getambassador.io/v2\nspec: {\n", "", 0},
		{"another group", "apiVersion: example.com/v1\nkind: AuthService\nspec: {\n", host, 200},
		{"another kind", "apiVersion: getambassador.io/v3alpha1\nkind: Mapping\nspec: {\n", host, 200},
		{"no kind", "what: {\n", host, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			var findings []snapshot.Diagnostic
			for _, d := range manifest.Documents("broken.yaml", []byte(c.broken)) {
				if d.Err == nil {
					t.Fatal("the document is not broken")
				}
				findings = append(findings, *d.Err)
			}
			objects, _ := parse(t, "in.yaml", listener+"\n---\n"+mapping+"\n---\n"+c.rest)
			r := newCompiler().Compile(snapshot.Empty().Derive(objects, nil, findings))
			q, err := simulator.ParseRequest("GET", "http://x.example.com:8080/", nil)
			if err != nil {
				t.Fatal(err)
			}
			o := simulator.Simulate(r.Program, q).Outcomes[0]
			switch c.status {
			case 200:
				if o.Kind != simulator.Forwarded {
					t.Errorf("%+v", o)
				}
			case 0:
				if o.Kind != simulator.Refused {
					t.Errorf("%+v", o)
				}
			default:
				if o.Status != c.status {
					t.Errorf("%+v", o)
				}
			}
		})
	}
}
