package deploy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	policy "github.com/chancery-gateway/chancery/policies/api"
	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// reviews returns how many admission reviews were answered with the verdict.
func (g *gateway) reviews(verdict string) float64 {
	g.t.Helper()
	return g.metric(`chancery_admission_reviews_total{verdict="` + verdict + `"}`)
}

func TestDryRunSaysWhatWouldChange(t *testing.T) {
	c, client, ns, port := bed(t)
	g, author := guarded(t, c, client, ns, port)
	client.Apply(fmt.Sprintf(oneMapping, ns, "served"))
	g.answers("/served/", 503, "")
	g.quiet()
	compiles := g.metric("chancery_compiles_total")
	for _, x := range []struct {
		name string
		o    *unstructured.Unstructured
		want []string
	}{
		{"a host name of a wildcard", author.object("v3alpha1", "Host", "shop", `hostname: shop.example.com, requestPolicy: {insecure: {action: Route}}`),
			[]string{"Host/" + ns + "/shop: takes over host shop.example.com from Host/" + ns + "/h"}},
		{"a listener", author.object("v3alpha1", "Listener", "l", fmt.Sprintf(`port: %d, protocol: HTTP, securityModel: INSECURE, l7Depth: 3, hostBinding: {namespace: {from: SELF}}`, port)),
			[]string{"Listener/" + ns + "/l: drains ", " would drain"}},
		{"a share", author.object("v3alpha1", "Mapping", "canary", `hostname: "*", prefix: /served/, service: "other:80", weight: 10`),
			[]string{"Mapping/" + ns + "/canary: shares prefix /served/ on *: 10 % forward to ", "with Mapping/" + ns + "/served"}},
		{"a shadow", author.object("v3alpha1", "Mapping", "all", `hostname: "*", prefix: /, service: "other:80", precedence: 9`),
			[]string{"Mapping/" + ns + "/all: shadows prefix /", "Mapping/" + ns + "/served", "would add 1, change 0 and remove 0 routes; no connection would be drained"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			said, err := author.try(x.o)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range x.want {
				if !strings.Contains(said, w) {
					t.Errorf("the warnings are %q, which do not speak of %q", said, w)
				}
			}
		})
	}
	t.Run("a deletion", func(t *testing.T) {
		author.warned.take()
		o := author.object("v3alpha1", "Listener", "l", "")
		if err := author.Of(o).Delete(t.Context(), "l", metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
			t.Fatal(err)
		}
		if said := author.warned.take(); !strings.Contains(said, "because the listener is removed") {
			t.Errorf("the warnings are %q", said)
		}
	})
	t.Run("nothing is stored or published", func(t *testing.T) {
		o := author.object("v3alpha1", "Host", "shop", "")
		if _, err := author.Of(o).Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Host is there: %v", err)
		}
		if n := g.metric("chancery_compiles_total") - compiles; n != 0 {
			t.Errorf("%v compiles were published", n)
		}
		g.answers("/served/", 503, "")
	})
	t.Run("labels and statuses pass at once", func(t *testing.T) {
		o := author.object("v3alpha1", "Mapping", "served", "")
		kubetest.Eventually(t, patience, "its status is written", func(context.Context) bool { return state(t, client, "Mapping", ns, "served") != "" })
		looked, trials := g.reviews("allowed")+g.reviews("refused"), g.metric("chancery_admission_compiles_total")
		// The API server asks once more for a write that meets another one, such as the program's own of a status.
		attempt := 0
		kubetest.Eventually(t, patience, "two writes, each asked about at both doors, pass at once", func(context.Context) bool {
			passed := g.reviews("passed")
			attempt++
			for _, patch := range []string{`{"metadata": {"labels": {"a": "%d"}}}`, `{"metadata": {"annotations": {"a": "%d"}}}`} {
				if _, err := author.Of(o).Patch(t.Context(), "served", types.MergePatchType, fmt.Appendf(nil, patch, attempt), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			o.Object["status"] = map[string]any{"reason": fmt.Sprintf("somebody says so, %d", attempt)}
			if err := author.PatchStatus(o); err != nil {
				t.Fatal(err)
			}
			return g.reviews("passed")-passed == 4
		})
		if n, m := g.reviews("allowed")+g.reviews("refused")-looked, g.metric("chancery_admission_compiles_total")-trials; n != 0 || m != 0 {
			t.Errorf("%v objects were looked at, with %v compiles", n, m)
		}
	})
}

// guardrails are policies of which one changes and one refuses.
const guardrails = `# METADATA
# custom:
#   match: {kinds: [Mapping]}
#   writes: [spec.timeout_ms, metadata.labels]
package chancery.admission.doors

mutate contains {"op": "default", "path": "spec.timeout_ms", "value": 4321}

mutate contains {"op": "set", "path": "/metadata/labels/checked~1by", "value": "door"}

deny contains {"msg": "bypass_auth is not for you", "path": "spec.bypass_auth"} if input.object.spec.bypass_auth

warn contains {"msg": "a rewrite surprises", "path": "spec.rewrite"} if input.object.spec.rewrite == "/surprise/"
`

func TestPoliciesChangeObjectsAtTheDoor(t *testing.T) {
	c, client, ns, port := bed(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "doors.rego"), []byte(guardrails), 0o600); err != nil {
		t.Fatal(err)
	}
	_, author := guarded(t, c, client, ns, port, "--policies", dir)
	definitions, err := policy.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	client.Apply(string(definitions))
	for spec, want := range map[string]string{
		`library: timeouts_bounded`: "",
		`library: nothing_such`:     "nothing_such",
		`match: {kinds: [Mapping]}, rego: "package x\ndeny contains {"`: "rego",
		`library: tls_floor, enforcment: warn`:                          "spec.enforcment",
	} {
		o := kubetest.Objects(t, fmt.Appendf(nil, "{apiVersion: chancery.dev/v1alpha1, kind: Policy, metadata: {name: bad, namespace: %s}, spec: {%s}}", ns, spec))[0]
		_, err := author.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "[CH-POLICY-")) {
			t.Errorf("a Policy of %s gives %v", spec, err)
		} else {
			t.Log(spec, err)
		}
	}
	timeout := func(o *unstructured.Unstructured) string {
		n, _, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "timeout_ms")
		return fmt.Sprintln(n, err, o.GetLabels()["checked/by"])
	}
	for _, x := range []struct{ version, name, spec, want string }{
		{"v3alpha1", "new", `hostname: "*", prefix: /new/, service: "http://127.0.0.1:1"`, "4321 <nil> door\n"},
		{"v3alpha1", "own", `hostname: "*", prefix: /own/, service: "http://127.0.0.1:1", timeout_ms: 7`, "7 <nil> door\n"},
		{"v2", "old", `prefix: /old/, service: "127.0.0.1:1"`, "4321 <nil> door\n"},
	} {
		first, err := author.TryApply(author.object(x.version, "Mapping", x.name, x.spec))
		if err != nil {
			t.Fatal(err)
		}
		again, err := author.TryApply(author.object(x.version, "Mapping", x.name, x.spec))
		if err != nil {
			t.Fatal(err)
		}
		if timeout(first) != x.want || timeout(again) != x.want || again.GetGeneration() != 1 {
			t.Errorf("%s is %s, and %s in generation %d when it is applied again; not %s", x.name, timeout(first), timeout(again), again.GetGeneration(), x.want)
		}
	}
	_, err = author.TryApply(author.object("v3alpha1", "Mapping", "bypass", `hostname: "*", prefix: /b/, service: "http://127.0.0.1:1", bypass_auth: true`))
	for _, want := range []string{"Mapping/" + ns + "/bypass spec.bypass_auth: bypass_auth is not for you", "doors.rego:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a policy's refusal is %v, which lacks %q", err, want)
		}
	}
	if said, err := author.try(author.object("v3alpha1", "Mapping", "warned", `hostname: "*", prefix: /w/, service: "http://127.0.0.1:1", rewrite: /surprise/`)); err != nil || strings.Count(said, "a rewrite surprises") != 1 {
		t.Errorf("a policy's warning is %q, %v", said, err)
	}
}

// checked returns the codes that `chancery check` gives to the object of the name, beside what is there, and whether one of
// them is a reason to turn the object away.
func checked(t *testing.T, name string, paths ...string) (codes []string, refused bool) {
	t.Helper()
	var out, errs bytes.Buffer
	command.Run(t.Context(), append([]string{"chancery", "check", "--envoy", "none", "--format", "json"}, paths...), strings.NewReader(""), &out, &errs)
	var doc struct {
		Diagnostics []struct {
			Severity, Code string
			Object         struct{ Kind, Name string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatalf("%v\n%s%s", err, out.Bytes(), errs.Bytes())
	}
	for _, d := range doc.Diagnostics {
		if d.Severity != "info" && d.Object.Kind+"/"+d.Object.Name == name {
			codes = append(codes, d.Code)
			refused = refused || d.Severity == "error" && !healed[d.Code]
		}
	}
	return codes, refused
}

// healed are errors that the arrival of another object mends: they are warned of, since objects arrive in any order.
var healed = map[string]bool{"CH-CLUSTER-002": true, "CH-CLUSTER-003": true, "CH-TLS-001": true, "CH-TLS-003": true, "CH-AUTH-001": true}

var ownCode = regexp.MustCompile(`\[(CH-[A-Z]+-[0-9]+)\]`)

func TestBrokenObjectsAreTurnedAway(t *testing.T) {
	c, client, ns, port := bed(t)
	_, author := guarded(t, c, client, ns, port)
	frame := filepath.Join(t.TempDir(), "frame.yaml")
	if err := os.WriteFile(frame, fmt.Appendf(nil, `
{apiVersion: getambassador.io/v3alpha1, kind: Listener, metadata: {name: l, namespace: %[1]s}, spec: {port: 8080, protocol: HTTP, securityModel: INSECURE, hostBinding: {namespace: {from: ALL}}}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Host, metadata: {name: h, namespace: %[1]s}, spec: {hostname: "*", requestPolicy: {insecure: {action: Route}}}}
`, ns), 0o600); err != nil {
		t.Fatal(err)
	}
	inputs, err := filepath.Glob("../../testdata/broken/objects/*.yaml")
	if err != nil || len(inputs) < 20 {
		t.Fatalf("%d inputs, %v", len(inputs), err)
	}
	refusals := 0
	for _, in := range inputs {
		t.Run(filepath.Base(in), func(t *testing.T) {
			text, err := os.ReadFile(in)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.ReplaceAll(text, []byte("namespace: app"), []byte("namespace: "+ns))
			o := kubetest.Objects(t, text)[0]
			codes, refused := checked(t, o.GetKind()+"/bad", frame, write(t, text))
			for _, o := range kubetest.Objects(t, text)[1:] {
				author.warned.take()
				if o.GetKind() == "Secret" {
					client.Apply(string(must(t, o)))
					t.Cleanup(func() { client.Delete(string(must(t, o))) })
				}
			}
			var said string
			// What stands beside it is not asked about, so that nobody knows when it has been seen.
			kubetest.Eventually(t, patience, "what stands beside it is seen", func(context.Context) bool {
				_, err = author.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
				said = author.warned.take()
				return len(kubetest.Objects(t, text)) == 1 || !strings.Contains(said, "there is no Secret")
			})
			if refused != (err != nil) {
				t.Fatalf("check says %v, refused %t; the API server says %v", codes, refused, err)
			}
			where := said
			if refused {
				refusals++
				where = err.Error()
				if !strings.Contains(where, o.GetKind()+"/"+ns+"/bad") {
					t.Errorf("the refusal names no object: %s", where)
				}
			}
			found := map[string]bool{}
			for _, m := range ownCode.FindAllStringSubmatch(where, -1) {
				found[m[1]] = true
			}
			for _, code := range codes {
				if !found[code] {
					t.Errorf("check says %v; the API server says %q", codes, where)
				}
			}
			if len(codes) == 0 {
				t.Error("check has nothing against it")
			}
			t.Log(where)
		})
	}
	t.Logf("%d of %d refused", refusals, len(inputs))
	good := 0
	for _, o := range kubetest.Objects(t, []byte(accepted)) {
		o.SetNamespace(ns)
		codes, refused := checked(t, o.GetKind()+"/"+o.GetName(), frame, write(t, must(t, o)))
		_, err := author.Of(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{"All"}})
		if refused != (err != nil) {
			t.Errorf("%s %s: check says %v, the API server says %v", o.GetAPIVersion(), o.GetKind(), codes, err)
		}
		if err == nil {
			good++
		}
	}
	if t.Logf("%d good ones pass", good); good < 14 {
		t.Errorf("%d good ones pass", good)
	}
}

func write(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input.yaml")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func must(t *testing.T, o *unstructured.Unstructured) []byte {
	t.Helper()
	text, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	c, client, ns, port := bed(t)
	_, author := guarded(t, c, client, ns, port)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(author.hook)
	issuer := func() string {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		chain := conn.ConnectionState().PeerCertificates
		return string(chain[len(chain)-1].Raw)
	}
	var applied, failed atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for w := range 4 {
		working.Go(func() {
			// A client of its own connects anew now and then, so that the API server does, too.
			for i := 0; ctx.Err() == nil; i++ {
				o := author.object("v3alpha1", "Mapping", fmt.Sprintf("load%d", w), fmt.Sprintf(`hostname: "*", prefix: /load%d/%d/, service: "http://127.0.0.1:1"`, w, i))
				if _, err := author.TryApply(o); err != nil {
					if failed.Add(1) == 1 {
						t.Errorf("after %d applies: %v", applied.Load(), err)
					}
				}
				applied.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	before := issuer()
	time.Sleep(time.Second)
	// Deleting the Secret is how one asks for a new authority.
	secrets := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(ns)
	if err := secrets.Delete(t.Context(), webhook.Secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	took := kubetest.Eventually(t, patience, "a certificate of another authority is shown", func(context.Context) bool {
		time.Sleep(200 * time.Millisecond)
		return issuer() != before
	})
	time.Sleep(2 * time.Second)
	end()
	working.Wait()
	t.Logf("renewed after %s; %d applies, %d failed", took.Round(time.Millisecond), applied.Load(), failed.Load())
	if failed.Load() > 0 {
		t.Error("applies failed")
	}
}
