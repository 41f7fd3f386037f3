package apiext_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/apiext"
	"github.com/chancery-gateway/chancery/runtime/command"
	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// gadgets is a definition of the group that no other test knows.
const gadgets = `
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadget%[1]ds.getambassador.io, labels: {of: the-test}}, spec: {
  group: getambassador.io, scope: Namespaced, names: {kind: Gadget%[1]d, listKind: Gadget%[1]dList, plural: gadget%[1]ds, singular: gadget%[1]d}, conversion: %[2]s,
  versions: [{name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: v3alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}]}}
`

func (b *bed) gadgets(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := b.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), fmt.Sprintf("gadget%ds.getambassador.io", gadget.Load()), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// definitions returns the definitions of the test alone, as a replica with all rights sees them.
func (b *bed) definitions(t *testing.T) *apiext.Definitions {
	t.Helper()
	s, err := apiext.New(b.Config(), "svc", "ns", slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.Definitions.Selector = "of=the-test"
	return s.Definitions
}

// gadget counts the definitions: one that is deleted is there for a while.
var gadget atomic.Int64

func (b *bed) define(t *testing.T, conversion string) {
	t.Helper()
	text := fmt.Sprintf(gadgets, gadget.Add(1), conversion)
	if _, err := b.client.TryApply(kubetest.Objects(t, []byte(text))[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Delete(text) })
	// The API server writes to its status for a while.
	kubetest.Eventually(t, patience, "the definition is established", func(context.Context) bool {
		conditions, _, _ := unstructured.NestedSlice(b.gadgets(t).Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			m := c.(map[string]any)
			return m["type"] == "Established" && m["status"] == "True"
		})
	})
}

// bundleOf returns certificates that nobody believes.
func bundleOf(t *testing.T, name string) []byte {
	t.Helper()
	cert, _ := authority(t, name)
	return cert
}

// authority returns one as Emissary makes it.
func authority(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{Organization: []string{name}}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func TestDefinitionsAreWrittenOnlyWhenTheyDiffer(t *testing.T) {
	b := bedOf(t)
	d := b.definitions(t)
	b.define(t, `{strategy: Webhook, webhook: {conversionReviewVersions: [v1beta1, v1], clientConfig: {service: {name: other, namespace: other, port: 444}}}}`)
	bundle := bundleOf(t, "a")
	d.Bundle = func(context.Context) ([]byte, error) { return bundle, nil }
	// Many at once: one of them writes.
	var all sync.WaitGroup
	before := b.gadgets(t).GetGeneration()
	for range 4 {
		other := b.definitions(t)
		other.Bundle = d.Bundle
		all.Go(func() {
			if err := other.Publish(t.Context(), bundle); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	o := b.gadgets(t)
	if now := o.GetGeneration(); now != before+1 {
		t.Errorf("%d writes of four replicas", now-before)
	}
	is, _, _ := unstructured.NestedMap(o.Object, "spec", "conversion")
	want := map[string]any{"strategy": "Webhook", "webhook": map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{
		"caBundle": base64.StdEncoding.EncodeToString(bundle),
		"service":  map[string]any{"name": "svc", "namespace": "ns", "path": "/webhooks/crd-convert", "port": int64(444)}}}}
	if fmt.Sprint(is) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", is, want)
	}
	if err := d.Publish(t.Context(), bundle); err != nil || b.gadgets(t).GetGeneration() != before+1 {
		t.Errorf("what was right has been written again (%v)", err)
	}
	bundle = bundleOf(t, "b")
	if err := d.Publish(t.Context(), bundle); err != nil || b.gadgets(t).GetGeneration() != before+2 {
		t.Errorf("a new authority has not been written (%v)", err)
	}
}

// A replica that is behind does not bring back an authority that another one has replaced.
func TestAReplicaThatIsBehindWritesTheNewAuthority(t *testing.T) {
	b := bedOf(t)
	d := b.definitions(t)
	b.define(t, `{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: svc, namespace: ns}}}}`)
	old, current := bundleOf(t, "old"), bundleOf(t, "new")
	d.Bundle = func(context.Context) ([]byte, error) { return current, nil }
	if err := d.Publish(t.Context(), old); err == nil || !strings.Contains(err.Error(), "another replica has just renewed") {
		t.Errorf("the answer is %v", err)
	}
	text, _, _ := unstructured.NestedString(b.gadgets(t).Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	if text != base64.StdEncoding.EncodeToString(current) {
		t.Error("the definition carries the old authority")
	}
}

func TestDefinitionsThatAreLeftAlone(t *testing.T) {
	b := bedOf(t)
	for _, x := range []struct{ name, conversion, selector string }{
		{"strategy None", `{strategy: None}`, "of=the-test"},
		{"another label", `{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: svc, namespace: ns}}}}`, "of=somebody-else"},
	} {
		t.Run(x.name, func(t *testing.T) {
			b.define(t, x.conversion)
			d := b.definitions(t)
			d.Selector = x.selector
			bundle := bundleOf(t, "a")
			d.Bundle = func(context.Context) ([]byte, error) { return bundle, nil }
			before := b.gadgets(t).GetGeneration()
			if err := d.Publish(t.Context(), bundle); err != nil || b.gadgets(t).GetGeneration() != before {
				t.Errorf("it was written (%v)", err)
			}
		})
	}
	t.Run("a URL", func(t *testing.T) {
		b.define(t, `{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/x"}}}`)
		d := b.definitions(t)
		bundle := bundleOf(t, "a")
		d.Bundle = func(context.Context) ([]byte, error) { return bundle, nil }
		if err := d.Publish(t.Context(), bundle); err != nil {
			t.Fatal(err)
		}
		client, _, _ := unstructured.NestedMap(b.gadgets(t).Object, "spec", "conversion", "webhook", "clientConfig")
		if client["url"] != "https://127.0.0.1:1/x" || client["service"] != nil || client["caBundle"] == nil {
			t.Errorf("%v", client)
		}
	})
	ours := bundleOf(t, "ours")
	for _, x := range []struct {
		name, want string
		carried    []byte
	}{
		{"somebody else has written another authority", ".getambassador.io: its conversion webhook does not carry our authority's certificate", bundleOf(t, "theirs")},
		{"somebody else has written ours", "", append(bundleOf(t, "theirs"), ours...)},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := b.definitions(t)
			d.ReadOnly = true
			d.Bundle = func(context.Context) ([]byte, error) { return ours, nil }
			b.define(t, fmt.Sprintf(`{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: %s, url: "https://127.0.0.1:1/x"}}}`, base64.StdEncoding.EncodeToString(x.carried)))
			if err := d.Publish(t.Context(), ours); x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("the answer is %v", err)
			}
		})
	}
}

// A Secret that Emissary's apiext made stays: replicas of both are believed while one takes the other's place.
func TestEmissarysAuthorityIsTakenOver(t *testing.T) {
	b := bedOf(t)
	b.forgetSecret(t)
	cert, key := authority(t, "Ambassador Labs")
	b.client.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: %s, namespace: %s}, data: {tls.crt: %s, tls.key: %s}}`,
		apiext.Secret, apiext.Namespace, base64.StdEncoding.EncodeToString(cert), base64.StdEncoding.EncodeToString(key)))
	t.Cleanup(func() { b.forgetSecret(t) })
	s := b.inProcess(t, time.Now)
	b.serveIn(t, s)
	if text, err := base64.StdEncoding.DecodeString(b.bundle(t)); err != nil || !bytes.Equal(text, cert) {
		t.Errorf("the definitions carry\n%s\nnot\n%s", text, cert)
	}
	l := b.load(t, "emissarys")
	l.more(t, 10)
	l.ends(t)
}

// With DISABLE_CA_MANAGEMENT and DISABLE_CRD_MANAGEMENT a replica says what it waits for, and is not ready.
func TestWhatOthersKeepIsWaitedFor(t *testing.T) {
	b := bedOf(t)
	b.forgetSecret(t)
	s := b.inProcess(t, time.Now)
	s.Authority.ReadOnly = true
	if err := s.Authority.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "emissary-system/emissary-ingress-webhook-ca is not there, and whoever is to make it has not") {
		t.Errorf("the answer is %v", err)
	}
	if s.Ready() == nil {
		t.Error("it is ready")
	}
	_, key := authority(t, "a")
	b.client.Apply(fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s}, data: {tls.crt: "", tls.key: %s}}`, apiext.Secret, apiext.Namespace, base64.StdEncoding.EncodeToString(key)))
	t.Cleanup(func() { b.forgetSecret(t) })
	if err := s.Authority.Refresh(t.Context()); err == nil || !strings.Contains(err.Error(), "must hold an authority in tls.crt and tls.key") {
		t.Errorf("the answer is %v", err)
	}
}

// A replica without permission for the definitions is not ready, and its probe says why.
func TestAReplicaWithoutPermissionIsNotReady(t *testing.T) {
	b := bedOf(t)
	config := b.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:emissary-system:somebody"}
	b.client.Apply(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: somebody, namespace: emissary-system}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: emissary-apiext}, subjects: [{kind: ServiceAccount, name: somebody, namespace: emissary-system}]}
`)
	probes := freePort(t)
	b.startAs(t, config, nil, "apiext", "emissary-apiext", "--address", freePort(t), "--probe-address", probes)
	kubetest.Eventually(t, patience, "the probe says why", func(context.Context) bool {
		err := probe(probes)
		return err != nil && strings.Contains(err.Error(), "500") && strings.Contains(err.Error(), "customresourcedefinitions")
	})
}

// besideAccount gives the gateway's account what the install manifest and that of conversion beside it do, in apiext's
// namespace, and returns its access.
func besideAccount(t *testing.T, b *bed) *rest.Config {
	t.Helper()
	install, err := deploy.Install(command.Version)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := deploy.Beside()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(kubetest.Objects(t, install), kubetest.Objects(t, beside)...) {
		if !strings.Contains(o.GetAPIVersion(), "rbac.authorization.k8s.io") {
			continue
		}
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		b.client.Apply(strings.ReplaceAll(string(text), `"namespace":"chancery"`, `"namespace":"emissary-system"`))
	}
	config := b.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:emissary-system:chancery"}
	return config
}

// The gateway answers as well, when it is told to, under the roles of its manifests.
func TestBesideTheGateway(t *testing.T) {
	b := bedOf(t)
	reviews := freePort(t)
	health := freePort(t)
	_, port, _ := strings.Cut(health, ":")
	r := b.startAs(t, besideAccount(t, b), []string{"AMBASSADOR_NAMESPACE=emissary-system"}, "entrypoint", "--envoy", "none", "--apiext-address", reviews, "--apiext-service", "emissary-apiext",
		"--health-address", "127.0.0.1", "--health-port", port, "--ads-address", freePort(t), "--state-dir", t.TempDir(), "--namespace", "emissary-system", "--update-status=false")
	b.add(backend{reviews: reviews})
	b.client.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: beside}}")
	kubetest.Eventually(t, patience, "a Mapping of v2 is taken", func(context.Context) bool {
		select {
		case <-r.done:
			t.Fatalf("the gateway ended:\n%s", r.log)
		default:
		}
		return b.apply(t.Context(), "v2", "beside", "m", 1) == nil
	})
	l := b.load(t, "beside")
	l.more(t, 10)
	l.ends(t)
	secret, err := b.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("emissary-system").Get(t.Context(), webhook.Secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, _, _ := unstructured.NestedString(secret.Object, "data", "tls.crt"); text != b.bundle(t) {
		t.Error("the definitions carry another authority than that of the gateway's webhooks")
	}
}
