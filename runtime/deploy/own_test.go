package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/modules"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/wasm"
)

// ownKinds makes the definitions of our own group known to the shared API server.
func ownKinds(t *testing.T) *kubetest.Client {
	t.Helper()
	client := kubetest.NewClient(t, kubetest.Shared(t).Config())
	definitions, err := policy.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(definitions))
	client.Apply(string(modules.Definition))
	return client
}

// own returns an object of our own group.
func own(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return kubetest.Objects(t, fmt.Appendf(nil, "{apiVersion: chancery.dev/v1alpha1, kind: %s, metadata: {name: %s, namespace: default}, spec: %s}", kind, name, spec))[0]
}

// reads returns what Chancery's own reader finds wrong with the object, "" for nothing.
func reads(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	decoded, found := api.Decode(text, snapshot.Source{}, nil)
	if decoded == nil {
		return fmt.Sprint(found)
	}
	if o.GetKind() == "Translator" {
		spec, err := json.Marshal(o.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := wasm.ParseSpec(o.GetName(), spec, "/"); err != nil {
			return err.Error()
		}
		return ""
	}
	var said []string
	for _, d := range policy.Read(snapshot.Empty().Derive([]*snapshot.Object{decoded}, nil, nil)).Findings {
		said = append(said, d.String())
	}
	return strings.Join(said, "\n")
}

// TestOwnKindsAreCheckedByTheAPIServer: a wrong object of our own group is refused by the API server itself, webhook or not, with
// the field and what would be right; nothing is that the reader takes.
func TestOwnKindsAreCheckedByTheAPIServer(t *testing.T) {
	client := ownKinds(t)
	digest := strings.Repeat("5aF0", 16)
	const exception = `policy: p, target: {kind: Mapping, name: m}, owner: me, reason: it is needed, expires: "2099-01-01T00:00:00Z"`
	except := func(old, new string) string { return "{" + strings.Replace(exception, old, new, 1) + "}" }
	for _, x := range []struct{ kind, spec, field, want string }{ // of want "", the reader takes it and so does the API server
		{"Policy", `{library: tls_floor}`, "", ""},
		{"Policy", `{library: tls_floor, rego: "", package: "", enforcement: "", onDeny: "", onFailure: "", deadline: ""}`, "", ""},
		{"Policy", `{package: chancery.admission.x, enforcement: dryrun, points: [cli, webhook, compile, audit], onDeny: keepLastGood, onFailure: open, priority: -3}`, "", ""},
		{"Policy", `{rego: "package x", parameters: {a: [1, {b: null}], c: 0.5}, match: {kinds: [Mapping], labels: {a: b}, tenants: [t]}}`, "", ""},
		{"Policy", `{rego: "package x", parameters: [1, 2]}`, "", ""},
		{"Policy", `{library: tls_floor, writes: [spec, spec.a.b, metadata.labels, metadata.labels.x, metadata.annotations.y/z]}`, "", ""},
		{"Policy", `{library: tls_floor, deadline: 1.5s}`, "", ""},
		{"Policy", `{library: tls_floor, deadline: +9s999ms}`, "", ""},
		{"Policy", `{library: tls_floor, deadline: 100µs}`, "", ""},
		{"Policy", `{}`, "spec", "set exactly one of rego, library and package"},
		{"Policy", `{library: tls_floor, rego: "package x"}`, "spec", "set exactly one of rego, library and package"},
		{"Policy", `{library: tls_floor, enforcement: block}`, "spec.enforcement", `supported values: "", "deny", "warn", "dryrun", "audit"`},
		{"Policy", `{library: tls_floor, points: [compile, door]}`, "spec.points[1]", `supported values: "cli", "webhook", "compile", "audit"`},
		{"Policy", `{library: tls_floor, onDeny: keep}`, "spec.onDeny", `"remove", "keepLastGood"`},
		{"Policy", `{library: tls_floor, onFailure: ajar}`, "spec.onFailure", `"closed", "open"`},
		{"Policy", `{library: tls_floor, deadline: soon}`, "spec.deadline", "a duration such as 50ms, at most 10s, is wanted"},
		{"Policy", `{library: tls_floor, deadline: 11s}`, "spec.deadline", "a duration such as 50ms, at most 10s, is wanted"},
		{"Policy", `{library: tls_floor, deadline: 0s}`, "spec.deadline", "a duration such as 50ms, at most 10s, is wanted"},
		{"Policy", `{library: tls_floor, writes: [spec.a, metadata.name]}`, "spec.writes[1]", "a path below spec, metadata.labels or metadata.annotations is wanted"},
		{"Policy", `{library: tls_floor, writes: [specs]}`, "spec.writes[0]", "a path below spec"},
		{"Policy", `{library: tls_floor, writes: [` + strings.Repeat("spec.a, ", 501) + `]}`, "spec.writes", "500"},
		{"Tenant", `{owner: me, namespaces: [a]}`, "", ""},
		{"Tenant", `{owner: me, namespaceSelector: {team: a}, hosts: [shop.example.com, "*.shop.example.com", "xn--bcher-kva.example"], limits: {Mapping: 0, Host: 9}, maxPolicies: 0}`, "", ""},
		{"Tenant", `{namespaces: [a]}`, "spec.owner", "Required value"},
		{"Tenant", `{owner: "", namespaces: [a]}`, "spec.owner", "the owner is missing"},
		{"Tenant", `{owner: me}`, "spec", "set namespaces or namespaceSelector"},
		{"Tenant", `{owner: me, namespaces: [], namespaceSelector: {}}`, "spec", "set namespaces or namespaceSelector"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: [Shop.example.com]}`, "spec.hosts[0]", "a lower-case name such as shop.example.com or *.shop.example.com is wanted"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: [a.example.com, "a.*.example.com"]}`, "spec.hosts[1]", "a lower-case name"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: ["a.example.com:80"]}`, "spec.hosts[0]", "a lower-case name"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: ["*"]}`, "spec.hosts[0]", "a lower-case name"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: [""]}`, "spec.hosts[0]", "a lower-case name"},
		{"Tenant", `{owner: me, namespaces: [a], hosts: [` + strings.Repeat("a", 256) + `]}`, "spec.hosts[0]", "255"},
		{"Tenant", `{owner: me, namespaces: [a], limits: {Mapping: -1}}`, "spec.limits.Mapping", "greater than or equal to 0"},
		{"PolicyException", "{" + exception + "}", "", ""},
		{"PolicyException", except("kind: Mapping", "group: networking.k8s.io, namespace: a, kind: Ingress"), "", ""},
		{"PolicyException", except("2099-01-01T00:00:00Z", "2099-12-31T23:59:59.5+02:00"), "", ""},
		{"PolicyException", except("2099-01-01T00:00:00Z", "1999-12-31T23:59:59Z"), "", ""}, // which is told, and waives nothing
		{"PolicyException", except("policy: p, ", ""), "spec.policy", "Required value"},
		{"PolicyException", except("policy: p", `policy: "  "`), "spec.policy", "it is required"},
		{"PolicyException", except("policy: p", `policy: "p*"`), "spec.policy", "an exception names one policy and one object exactly"},
		{"PolicyException", except("kind: Mapping, ", ""), "spec.target.kind", "Required value"},
		{"PolicyException", except("name: m", `name: "*"`), "spec.target.name", "an exception names one policy and one object exactly"},
		{"PolicyException", except("owner: me", `owner: ""`), "spec.owner", "it is required"},
		{"PolicyException", except("it is needed", `""`), "spec.reason", "it is required"},
		{"PolicyException", except(`, expires: "2099-01-01T00:00:00Z"`, ""), "spec.expires", "Required value"},
		{"PolicyException", except("2099-01-01T00:00:00Z", "2099-01-01"), "spec.expires", "a time such as 2026-12-31T00:00:00Z is wanted"},
		{"PolicyException", except("2099-01-01T00:00:00Z", "2099-13-01T00:00:00Z"), "spec.expires", "a time such as 2026-12-31T00:00:00Z is wanted"},
		{"Translator", `{source: {file: m.wasm}}`, "", ""},
		{"Translator", `{source: {file: m.wasm, http: ""}, sha256: "", failurePolicy: "", settings: [1]}`, "", ""},
		{"Translator", `{source: {oci: {dir: /images, tag: v1}}, failurePolicy: skip, phases: [lower, ir, xds], grant: {phases: [ir], reads: ["*"], namespaces: ["*"], writes: [{kind: Mapping, operations: [patch]}]}}`, "", ""},
		{"Translator", `{source: {http: "https://example.com/m.wasm"}, sha256: "sha256:` + digest + `"}`, "", ""},
		{"Translator", `{source: {http: "HTTP://example.com/m.wasm"}, sha256: "` + digest + `"}`, "", ""},
		{"Translator", `{source: {file: m.wasm, oci: {dir: /images}}}`, "spec.source", "set exactly one of file, oci and http"},
		{"Translator", `{source: {file: m.wasm}, sha256: "123"}`, "spec.sha256", "64 hexadecimal digits are wanted"},
	} {
		o := own(t, x.kind, "x", x.spec)
		if x.kind == "Tenant" {
			o.SetNamespace("")
		}
		refused(t, client, o, x.field, x.want)
		if found := reads(t, o); (found == "") != (x.want == "") {
			t.Errorf("%s %.200s: the reader finds %q", x.kind, x.spec, found)
		}
	}
	// What is wrong with these the reader says when it goes for the module.
	refused(t, client, own(t, "Translator", "x", `{}`), "spec.source", "Required value")
	refused(t, client, own(t, "Translator", "x", `{source: {}}`), "spec.source", "set exactly one of file, oci and http")
	refused(t, client, own(t, "Translator", "x", `{source: {http: "https://example.com/m.wasm"}}`), "spec.sha256", "it is required for a remote source")
	refused(t, client, own(t, "Translator", "x", `{source: {http: "ftp://example.com/m.wasm"}, sha256: "`+digest+`"}`), "spec.source.http", "an http or https address is wanted")
	dotted := own(t, "Tenant", "a.b", `{owner: me, namespaces: [a]}`)
	dotted.SetNamespace("")
	refused(t, client, dotted, "", "the name of a Tenant has no dot")
}

// refused fails unless the API server refuses the object at the field in the words, or takes it where there are none.
func refused(t *testing.T, client *kubetest.Client, o *unstructured.Unstructured, field, want string) {
	t.Helper()
	_, err := client.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
	switch {
	case want == "" && err != nil:
		t.Errorf("%s %v: %v", o.GetKind(), o.Object["spec"], err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), field+":")):
		t.Errorf("%s %.200v: %v; not %s: %s", o.GetKind(), o.Object["spec"], err, field, want)
	}
}

// TestOwnKindsInUseAreTaken: what the examples and tests of the repository hold of our own group is taken by the API server.
func TestOwnKindsInUseAreTaken(t *testing.T) {
	client := ownKinds(t)
	taken := map[string]int{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(path) != ".yaml":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "chancery.dev/v1alpha1") {
			return err
		}
		for _, o := range kubetest.Objects(t, text) {
			if o.GroupVersionKind().Group != policy.Group || !slices.Contains([]string{"Policy", "PolicyException", "Tenant", "Translator"}, o.GetKind()) {
				continue
			}
			if o.GetKind() == "Tenant" {
				o.SetNamespace("")
			} else {
				o.SetNamespace("default")
			}
			if reads(t, o) != "" {
				continue // it is there to be refused
			}
			taken[o.GetKind()]++
			if _, err := client.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
				t.Errorf("%s: %s %s: %v", path, o.GetKind(), o.GetName(), err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if taken["Policy"] == 0 || taken["Tenant"] == 0 {
		t.Errorf("of our own kinds there are %v", taken)
	}
	t.Log(taken)
}
