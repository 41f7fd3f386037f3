package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

func TestGeneratedFilesAreFresh(t *testing.T) {
	dir := t.TempDir()
	crds, install := filepath.Join(dir, "crds.yaml"), filepath.Join(dir, "install.yaml")
	cmd := exec.Command("go", "run", "./generate", crds, install)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{crds, install} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date; run `make generate`", filepath.Base(name))
		}
	}
}

func TestInstallRunsUnderItsOwnRole(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	manifest, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(manifest))
	port := porttest.Free(t, 1)[0]
	address, backendPort := backend(t, "one")
	client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: chancery}, spec: {port: %d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: SELF}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h, namespace: chancery}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: chancery}, spec: {hostname: "*", prefix: /m/, service: "http://%s:%d", rewrite: ""}}
`, port, address, backendPort))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:chancery:chancery"}
	client.Allows(config.Impersonate.UserName, "", "watch", "getambassador.io", "mappings")
	client.Allows(config.Impersonate.UserName, "chancery", "update", "coordination.k8s.io", "leases")
	g := entrypoint(t, config, port, "--namespace", "chancery")
	g.ready()
	g.answers("/m/", 200, "one /m/")
	kubetest.Eventually(t, patience, "the status is written", func(context.Context) bool { return state(t, client, "Mapping", "chancery", "m") == "Running" })
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q:\n%s", word, log)
		}
	}
}

// Each object must be taken, in each version that Emissary has the kind in.
const accepted = `
{apiVersion: getambassador.io/v2, kind: Mapping, metadata: {name: a}, spec: {ambassador_id: one, prefix: /, service: s, tls: true, headers: {a: true}, cors: {origins: "a,b", methods: GET}, add_request_headers: {x: y}, labels: {ambassador: [{l: [remote_address, {generic_key: k}, {h: {header: x, omit_if_not_present: true}}]}]}}}
---
{apiVersion: getambassador.io/v1, kind: Mapping, metadata: {name: b}, spec: {ambassador_id: [one], prefix: /, service: s, host_regex: true, host: "a.*"}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: c}, spec: {prefix: /, service: s, hostname: "*", timeout_ms: 0, weight: 10, retry_policy: {retry_on: 5xx, num_retries: 3}, load_balancer: {policy: ring_hash, header: x}, modules: [{a: b}], envoy_override: {a: {b: [1]}}, health_checks: [{health_check: {http: {path: /}}, interval: 5s}], labels: {ambassador: [{l: [{remote_address: {key: remote_address}}]}]}}}
---
{apiVersion: getambassador.io/v2, kind: Host, metadata: {name: a}, spec: {hostname: a.example.com, selector: {matchLabels: {a: b}}, acmeProvider: {authority: none}, tlsSecret: {name: s}, tls: {alpnProtocols: h2}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: b}, spec: {hostname: a.example.com, mappingSelector: {matchExpressions: [{key: a, operator: Exists}]}, requestPolicy: {insecure: {action: Redirect}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: a}, spec: {port: 8080, protocolStack: [TLS, HTTP, TCP], securityModel: XFP, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v2, kind: Module, metadata: {name: ambassador}, spec: {config: {anything: [1, {a: b}], x_num: 1.5}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Module, metadata: {name: other}, spec: {config: {anything: [1, {a: b}], x_num: 1.5}}}
---
{apiVersion: getambassador.io/v1, kind: AuthService, metadata: {name: a}, spec: {auth_service: s, tls: ctx, proto: http}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: b}, spec: {auth_service: s, include_body: {max_bytes: 1, allow_partial: true}, status_on_error: {code: 503}}}
---
{apiVersion: getambassador.io/v2, kind: TLSContext, metadata: {name: a}, spec: {hosts: [a], secret: s, min_tls_version: v1.2}}
---
{apiVersion: getambassador.io/v2, kind: TCPMapping, metadata: {name: a}, spec: {port: 9000, service: s, tls: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: RateLimitService, metadata: {name: a}, spec: {service: s, protocol_version: v3}}
---
{apiVersion: getambassador.io/v3alpha1, kind: LogService, metadata: {name: a}, spec: {service: s, driver: tcp, driver_config: {}, grpc: true}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TracingService, metadata: {name: a}, spec: {service: s, driver: zipkin, config: {collector_endpoint: /x}, sampling: {overall: 10}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: DevPortal, metadata: {name: a}, spec: {default: true, content: {url: u, branch: b}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: ConsulResolver, metadata: {name: a}, spec: {address: "consul:8500", datacenter: dc}}
---
{apiVersion: getambassador.io/v2, kind: KubernetesEndpointResolver, metadata: {name: a}}
---
{apiVersion: getambassador.io/v3alpha1, kind: KubernetesServiceResolver, metadata: {name: a}}
`

func TestDefinitionsTakeWhatEmissarysTake(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: taken}}")
	apply := func(o *unstructured.Unstructured) error {
		o.SetNamespace("taken")
		_, err := client.TryApply(o)
		return err
	}
	for _, o := range kubetest.Objects(t, []byte(accepted)) {
		if err := apply(o); err != nil {
			t.Errorf("%s %s %s: %v", o.GetAPIVersion(), o.GetKind(), o.GetName(), err)
		}
	}
	for text, want := range map[string]string{
		`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: x}, spec: {service: s}}`:                                  "spec.prefix: Required value",
		`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: x}, spec: {prefix: /, service: s, weight: "10"}}`:         "spec.weight",
		`{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: x}, spec: {port: 0, securityModel: Y, hostBinding: {}}}`: "spec.securityModel: Unsupported value",
	} {
		o := kubetest.Objects(t, []byte(text))[0]
		if err := apply(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, which does not speak of %q", text, err, want)
		}
	}
}
