package deploy_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// Whatever Emissary's definitions take is the same after it was stored, in the version that it was written in, and is in
// the others what conversion says: the API server drops nothing on the way.
func TestWhatEmissarysDefinitionsTakeIsConvertedWhole(t *testing.T) {
	t.Parallel()
	kubetest.Shared(t) // or the test is skipped
	c, err := kubetest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := apiext.New(c.Config(), "apiext", "default", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.Drain = time.Millisecond
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, nil) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client := kubetest.NewClient(t, c.Config())
	client.Apply(byURL(t, fmt.Sprintf("https://%s%s", l.Addr(), apiext.Path)))
	// Nothing is converted before something is there, so the first object shows whether the definitions have been brought up to date.
	kubetest.Eventually(t, patience, "the definitions lead to the webhook", func(context.Context) bool { return s.Ready() == nil })
	served := map[string]bool{}
	made := 0
	for kind, byVersion := range facts(t) {
		for version, spec := range byVersion {
			for turn := range 10 {
				m := &maker{random: rand.New(rand.NewPCG(5, uint64(turn))), turn: turn, share: []int{0, 100, 50, 30}[turn%4]}
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "getambassador.io/" + version, "kind": kind,
					"metadata": map[string]any{"name": fmt.Sprintf("x-%s-%d", version, turn), "namespace": "default"}, "spec": m.value(spec)}}
				if version == "v2" && turn > 1 {
					loosen(t, o, turn)
					if _, has, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "tls"); has && kind != "Host" && turn == 5 {
						o.Object["spec"].(map[string]any)["tls"] = nil
					}
				}
				original, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.Of(o).Create(t.Context(), o.DeepCopy(), metav1.CreateOptions{})
				if !served[kind] { // the API server may not have noticed yet that a kind is converted
					kubetest.Eventually(t, patience, kind+" is converted", func(context.Context) bool {
						if err != nil {
							_, err = client.Of(o).Create(t.Context(), o.DeepCopy(), metav1.CreateOptions{})
						}
						return (err == nil || !strings.Contains(err.Error(), "conversion webhook")) && converted(t, client, o, byVersion)
					})
				}
				if err != nil {
					t.Errorf("%s %s: %v\n%s", version, kind, err, specText(t, o))
					continue
				}
				served[kind] = true
				made++
				for _, other := range []string{"v1", "v2", "v3alpha1"} {
					text, err := api.Convert(jsontext.Value(original), "getambassador.io/"+other)
					if err != nil {
						continue // the kind has no such version
					}
					want := &unstructured.Unstructured{}
					if err := want.UnmarshalJSON(text); err != nil {
						t.Fatal(err)
					}
					got, err := client.Of(want).Get(t.Context(), want.GetName(), metav1.GetOptions{})
					if err != nil {
						t.Errorf("%s %s in %s: %v", version, kind, other, err)
						continue
					}
					if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
						t.Errorf("%s %s in %s is not what it should be:\n%s", version, kind, other, diff)
					}
				}
			}
		}
	}
	t.Logf("%d objects", made)
}

// converted reports whether the API server shows an object in each version.
func converted(t *testing.T, client *kubetest.Client, o *unstructured.Unstructured, versions map[string]*field) bool {
	t.Helper()
	for version := range versions {
		other := o.DeepCopy()
		other.SetAPIVersion("getambassador.io/" + version)
		if _, err := client.Of(other).Get(t.Context(), o.GetName(), metav1.GetOptions{}); err != nil && strings.Contains(err.Error(), "conversion webhook") {
			return false
		}
	}
	return true
}

// byURL returns the definitions with a URL as what converts between their versions.
func byURL(t *testing.T, url string) string {
	t.Helper()
	stream, _, err := deploy.ConvertedCRDs("apiext", "default")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, o := range kubetest.Objects(t, stream) {
		if _, converted, _ := unstructured.NestedMap(o.Object, "spec", "conversion"); converted {
			if err := unstructured.SetNestedMap(o.Object, map[string]any{"url": url}, "spec", "conversion", "webhook", "clientConfig"); err != nil {
				t.Fatal(err)
			}
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "---\n%s\n", text)
	}
	return out.String()
}
