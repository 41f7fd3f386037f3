package deploy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// refusedByEnvoy is a header value that passes Chancery's own rules and that Envoy refuses.
const refusedByEnvoy = `%REQ(a?b?c)%`

// TestEnvoysRefusalIsOnTheObject: the verdict of the validating Envoy, or where there is none, that of the traffic's.
func TestEnvoysRefusalIsOnTheObject(t *testing.T) {
	for name, x := range map[string]struct {
		args []string
		want []string
	}{
		"by the validating Envoy": {nil, []string{"Envoy says: ", "spec.add_request_headers.x-told.value", "the last good form is served", "[CH-PROOF-011]"}},
		"by that of the traffic":  {[]string{"--validator=false"}, []string{"[CH-PROOF-002]"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, client, ns, port := bed(t)
			address, at := backend(t, "one")
			mapping := func(name, value string) string {
				return fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[2]s, namespace: %[1]s}, spec: {hostname: "*", prefix: /%[2]s/, service: "http://%[3]s:%[4]d", rewrite: "", add_request_headers: {x-told: {value: "%[5]s"}}}}`, ns, name, address, at, value)
			}
			client.Apply(mapping("m", "good") + "\n---\n" + mapping("other", "good"))
			g := entrypoint(t, c.Config(), port, append([]string{"--namespace", ns, "--single-namespace"}, x.args...)...)
			g.ready()
			g.answers("/m/", 200, "one")
			told := func(name string) string {
				got, err := client.Resource(mappings).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				s, _, _ := unstructured.NestedString(got.Object, "status", "state")
				reason, _, _ := unstructured.NestedString(got.Object, "status", "reason")
				return s + " " + reason
			}
			for _, name := range []string{"m", "other"} {
				kubetest.Eventually(t, patience, name+"'s status says that it runs", func(context.Context) bool { return told(name) == "Running " })
			}
			wrong := g.traffic("/m/")
			client.Apply(mapping("m", refusedByEnvoy))
			took := kubetest.Eventually(t, patience, "Envoy's words are on the Mapping", func(context.Context) bool {
				said := told("m")
				return strings.HasPrefix(said, "Inactive ") && !slices.ContainsFunc(x.want, func(w string) bool { return !strings.Contains(said, w) })
			})
			t.Logf("after %s: %s", took.Round(time.Millisecond), told("m"))
			if said := told("other"); said != "Running " {
				t.Errorf("the other Mapping says %q", said)
			}
			client.Apply(mapping("m", "better"))
			took = kubetest.Eventually(t, patience, "its status says that it runs again", func(context.Context) bool { return told("m") == "Running " })
			t.Logf("healed after %s", took.Round(time.Millisecond))
			if wrong() > 0 {
				t.Error("requests failed")
			}
		})
	}
}
