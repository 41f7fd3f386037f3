package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/snapshot/porttest"
)

// helm runs Helm, which is built from the version that .ci/helm names, and returns what it wrote.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(kubetest.Program(t, "helm", "helm-3.22.0"), args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, errs.String()+out.String())
	}
	return out.String(), nil
}

// rendered returns what the chart makes of values.
func rendered(t testing.TB, release, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	out, err := helm(t, "template", release, "chart", "--namespace", namespace, "--values", valuesFile(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return kubetest.Objects(t, []byte(out))
}

func valuesFile(t testing.TB, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// find returns the object of a kind and name.
func find(t testing.TB, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	return all[i]
}

// valueSets are those of Emissary's own chart's trials, and each other value that it knows.
var valueSets = map[string]string{
	"none":    ``,
	"scaling": `{deploymentStrategy: {type: Recreate}, service: {type: NodePort}, autoscaling: {enabled: true}, createDefaultListeners: true, podDisruptionBudget: {maxUnavailable: 1}}`,
	"single namespace": `{service: {type: NodePort}, deploymentStrategy: {type: Recreate}, scope: {singleNamespace: true}, createDefaultListeners: true,
		env: {AMBASSADOR_ID: internal, AMBASSADOR_DRAIN_TIME: 5, STATSD_ENABLED: true}}`,
	"daemon set": `{service: {type: NodePort}, daemonSet: true, hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, createDefaultListeners: true,
		service: {ports: [{name: http, port: 80, targetPort: 8080, hostPort: 8080, protocol: TCP}, {name: ssh, port: 2222, targetPort: 2222}]}}`,
	"objects": `
resolvers: {endpoint: {create: true, name: endpoint-foo}, consul: {create: true, name: consul-foo, spec: {address: "${HOST_IP}", datacenter: dc1}}}
createDefaultListeners: true
ingressClassResource: {default: true, name: outside}
module:
  lua_scripts: |
    function envoy_on_response(h) h:headers():add("x", "y") end
  ip_allow: [{peer: 127.0.0.1}, {remote: 99.99.0.0/16}]
ambassadorConfig: |
  ---
  apiVersion: getambassador.io/v3alpha1
  kind: Mapping
  metadata: {name: file}
  spec: {hostname: "*", prefix: /file/, service: quote}
apiext: {inProcess: true}
moduleKinds: [{apiGroup: pages.example.com, resources: [maintenancepages, redirectlists]}, {apiGroup: "", resources: [configmaps]}]
`,
	"canary": `
canary: {enabled: true, mixPods: true, replicaCount: 1, image: {tag: next}, envRaw: "- name: AES_LOG_LEVEL\n  value: debug\n"}
createNamespace: true
image: {repository: example.com/chancery, tag: "1.2", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
envRaw: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
namespace: {name: other}
`,
	"pod": `
fullnameOverride: edge
replicaCount: 1
podLabels: {a: b}
podAnnotations: {c: d}
deploymentLabels: {e: f}
deploymentAnnotations: {g: h}
nodeSelector: {disk: ssd}
tolerations: [{key: x, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]
lifecycle: {preStop: {exec: {command: [sleep, "3"]}}}
initContainers: [{name: wait, image: busybox}]
sidecarContainers: [{name: log, image: busybox}]
volumes: [{name: more, emptyDir: {}}]
volumeMounts: [{name: more, mountPath: /more}]
terminationGracePeriodSeconds: 60
startupProbe: null
resources: {limits: {memory: 1Gi}}
security: {podSecurityContext: {runAsUser: 1000}}
adminService: {type: NodePort, nodePort: 31877, annotations: {x: z}}
service: {type: LoadBalancer, loadBalancerClass: example.com/lb, loadBalancerSourceRanges: [10.0.0.0/8], externalTrafficPolicy: Local, sessionAffinity: ClientIP,
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}, externalIPs: [192.0.2.1], ipFamilies: [IPv4], annotations: {i: j}, nameOverride: door}
test: {enabled: true}
barePod: true
redis: {enabled: false}
`,
}

func TestChartIsTakenByTheAPIServer(t *testing.T) {
	if _, err := helm(t, "lint", "chart", "--strict"); err != nil {
		t.Fatal(err)
	}
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	for name, values := range valueSets {
		t.Run(name, func(t *testing.T) {
			if _, err := helm(t, "lint", "chart", "--strict", "--values", valuesFile(t, values)); err != nil {
				t.Fatal(err)
			}
			release := "chart-" + strings.ReplaceAll(name, " ", "-")
			client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: " + release + "}}")
			all := rendered(t, release, release, values)
			for _, o := range all {
				if _, err := client.TryApply(o); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
			for _, o := range all {
				if o.GetAnnotations()["helm.sh/resource-policy"] == "keep" {
					continue
				}
				if err := client.Of(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		`{replicaCount: three}`:                                                           "replicaCount",
		`{service: {type: External}}`:                                                     "service/type",
		`{service: {ports: [{name: http, port: 80}]}}`:                                    "targetPort",
		`{env: {AMBASSADOR_ID: [a]}}`:                                                     "AMBASSADOR_ID",
		`{envRaw: {AMBASSADOR_ID: a}}`:                                                    "envRaw",
		`{adminService: {port: 70000}}`:                                                   "adminService/port",
		`{apiext: {inProcess: maybe}}`:                                                    "apiext/inProcess",
		`{ownDefinitions: {created: true}}`:                                               "created",
		`{daemonSet: "yes"}`:                                                              "daemonSet",
		`{moduleKinds: [{apiGroup: a.example.com/v1, resources: [pages]}]}`:               "moduleKinds/0/apiGroup",
		`{moduleKinds: [{apiGroup: a.example.com, resources: [Page]}]}`:                   "moduleKinds/0/resources/0",
		`{moduleKinds: [{apiGroup: a.example.com, resources: ["pages/status"]}]}`:         "moduleKinds/0/resources/0",
		`{moduleKinds: [{apiGroup: a.example.com, resources: []}]}`:                       "moduleKinds/0/resources",
		`{moduleKinds: [{apiGroup: a.example.com}]}`:                                      "resources",
		`{moduleKinds: [{apiGroup: a.example.com, resources: [pages], verbs: [delete]}]}`: "verbs",
		`{service: {ports: [{name: not_a_name, port: 80, targetPort: "named"}]}}`:         "service/ports/0",
	} {
		if _, err := helm(t, "template", "r", "chart", "--values", valuesFile(t, values)); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ".", "/"), want) {
			t.Errorf("%s gives %v, which does not name %s", values, err, want)
		}
	}
}

func TestChartSaysWhatHasNoEffect(t *testing.T) {
	c := kubetest.Shared(t)
	kubetest.NewClient(t, c.Config()).Apply(string(deploy.CRDs))
	out, err := helm(t, "install", "r", "chart", "--dry-run=server", "--kubeconfig", kubetest.Kubeconfig(t, c.Config()), "--values",
		valuesFile(t, `{barePod: true, redis: {enabled: false}, prometheusExporter: {enabled: true}, security: {podSecurityPolicy: {spec: {}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "no effect here: barePod, prometheusExporter.enabled, redis, security.podSecurityPolicy."; !strings.Contains(out, want) {
		t.Errorf("the notes lack %q:\n%s", want, out[strings.LastIndex(out, "NOTES"):])
	}
}

// allowed returns what a role allows, each verb on each resource once, sorted.
func allowed(t testing.TB, roles ...*unstructured.Unstructured) []string {
	t.Helper()
	var out []string
	for _, o := range roles {
		var role rbac.Role
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, fmt.Sprintf("%s %q/%s %v", verb, rule.APIGroups, resource, rule.ResourceNames))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestChartAndManifestAgree(t *testing.T) {
	manifest, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	plain := kubetest.Objects(t, manifest)
	chart := rendered(t, "chancery", "chancery", "")
	for _, kind := range []string{"ClusterRole", "Role"} {
		if want, got := allowed(t, find(t, plain, kind, "chancery")), allowed(t, find(t, chart, kind, "chancery")); !slices.Equal(want, got) {
			t.Errorf("%s: the manifest allows\n%s\nthe chart\n%s", kind, strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	}
	want, got := container(t, plain), container(t, chart)
	for _, field := range []string{"securityContext", "livenessProbe", "readinessProbe", "startupProbe", "volumeMounts"} {
		w, g := asJSON(t, want[field]), asJSON(t, got[field])
		if w != g {
			t.Errorf("%s: the manifest says\n%s\nthe chart\n%s", field, w, g)
		}
	}
	// Our own definitions are the same, and stay when the release goes.
	for _, o := range plain {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		has := find(t, chart, o.GetKind(), o.GetName())
		if has.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the release", o.GetName())
		}
		if has.SetAnnotations(nil); asJSON(t, o.Object) != asJSON(t, has.Object) {
			t.Errorf("%s differs", o.GetName())
		}
	}
	if without := rendered(t, "chancery", "chancery", "{ownDefinitions: {create: false}}"); slices.ContainsFunc(without, func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }) {
		t.Error("there are definitions that nobody wants")
	}
	// With conversion in the gateway's process, what beside.yaml says comes in.
	text, err := deploy.Beside()
	if err != nil {
		t.Fatal(err)
	}
	beside := kubetest.Objects(t, text)
	converting := rendered(t, "chancery", "chancery", "{apiext: {inProcess: true}}")
	if want, got := allowed(t, find(t, plain, "ClusterRole", "chancery"), find(t, beside, "ClusterRole", "chancery-apiext")), allowed(t, find(t, converting, "ClusterRole", "chancery")); !slices.Equal(want, got) {
		t.Errorf("with conversion: the manifests allow\n%s\nthe chart\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	ports, _, _ := unstructured.NestedSlice(find(t, converting, "Service", "chancery-apiext").Object, "spec", "ports")
	if c := asJSON(t, container(t, converting)); len(ports) != 1 || ports[0].(map[string]any)["targetPort"] != "apiext" ||
		!strings.Contains(c, `{"containerPort":9444,"name":"apiext"}`) || !strings.Contains(c, `{"name":"CHANCERY_APIEXT_ADDRESS","value":"0.0.0.0:9444"},{"name":"CHANCERY_APIEXT_SERVICE","value":"chancery-apiext"}`) {
		t.Errorf("conversion: the Service leads to %v of %s", ports, c)
	}
	// With a single namespace the cluster's role reads nothing that has a namespace, and both roles no more than before.
	single := rendered(t, "chancery", "chancery", "{scope: {singleNamespace: true}}")
	both := allowed(t, find(t, plain, "ClusterRole", "chancery"), find(t, plain, "Role", "chancery"))
	for _, right := range allowed(t, find(t, single, "ClusterRole", "chancery"), find(t, single, "Role", "chancery")) {
		if !slices.Contains(both, right) && !slices.Contains(both, strings.Replace(right, "/tenants ", "/* ", 1)) {
			t.Errorf("with a single namespace: %s", right)
		}
	}
	for _, right := range allowed(t, find(t, single, "ClusterRole", "chancery")) {
		if !strings.Contains(right, "gatewayclasses") && !strings.Contains(right, "tenants") && !strings.Contains(right, "customresourcedefinitions") && !strings.Contains(right, "webhookconfigurations") {
			t.Errorf("with a single namespace the cluster's role may still %s", right)
		}
	}
}

func container(t testing.TB, all []*unstructured.Unstructured) map[string]any {
	t.Helper()
	list, _, err := unstructured.NestedSlice(find(t, all, "Deployment", "chancery").Object, "spec", "template", "spec", "containers")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].(map[string]any)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the chart installs for a single namespace must be enough: a real gateway runs under its role alone.
func TestChartRunsUnderItsOwnRole(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: chart-role}}")
	for _, o := range rendered(t, "edge", "chart-role", "{scope: {singleNamespace: true}, admissionWebhook: {create: false}, ingressClassResource: {enabled: false}}") {
		if _, err := client.TryApply(o); err != nil {
			t.Fatal(err)
		}
	}
	port := porttest.Free(t, 1)[0]
	address, backendPort := backend(t, "one")
	client.Apply(fmt.Sprintf(`
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: chart-role}, spec: {port: %d, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: SELF}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h, namespace: chart-role}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: chart-role}, spec: {hostname: "*", prefix: /m/, service: "http://%s:%d", rewrite: ""}}
`, port, address, backendPort))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:chart-role:edge-chancery"}
	client.Allows(config.Impersonate.UserName, "", "watch", "gateway.networking.k8s.io", "gatewayclasses")
	client.Allows(config.Impersonate.UserName, "chart-role", "watch", "getambassador.io", "mappings")
	g := entrypoint(t, config, port, "--namespace", "chart-role", "--single-namespace")
	g.ready()
	g.answers("/m/", 200, "one /m/")
	kubetest.Eventually(t, patience, "the status is written", func(context.Context) bool { return state(t, client, "Mapping", "chart-role", "m") == "Running" })
	for _, word := range []string{"CH-KUBE", "forbidden", "cannot be written"} {
		if log := g.log.String(); strings.Contains(log, word) {
			t.Errorf("the log speaks of %q:\n%s", word, log)
		}
	}
}

func TestChartRulesAreFresh(t *testing.T) {
	definitions, err := deploy.ChartDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	fresh := map[string]string{"definitions/own.yaml": string(definitions)}
	for name, text := range deploy.Rules() {
		fresh["rules/"+name] = text
	}
	for name, want := range fresh {
		got, err := os.ReadFile(filepath.Join("chart", name))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := bytes.Cut(got, []byte("\n")); string(rest) != want {
			t.Errorf("%s is out of date; run `make generate`", name)
		}
	}
}

// TestChartDefinitionsStay: a release brings the definitions of our own kinds, an upgrade keeps them, and neither its end nor
// another release takes them away with their objects.
func TestChartDefinitionsStay(t *testing.T) {
	c, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	values := valuesFile(t, "{admissionWebhook: {create: false}, ingressClassResource: {enabled: false}, service: {type: ClusterIP}}")
	do := func(args ...string) {
		t.Helper()
		if _, err := helm(t, append(args, "--namespace", "default", "--kubeconfig", kubetest.Kubeconfig(t, c.Config()))...); err != nil {
			t.Fatal(err)
		}
	}
	do("install", "one", "chart", "--values", values)
	o := own(t, "Policy", "p", "{library: tls_floor}")
	client.Apply(asJSON(t, o.Object)) // which waits until the kind is served
	do("upgrade", "one", "chart", "--values", values)
	do("uninstall", "one")
	do("install", "two", "chart", "--values", values)
	do("uninstall", "two")
	if _, err := client.Of(o).Get(t.Context(), "p", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
