package kube_test

import (
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// The content of a ConfigMap is there with the first snapshot in which an object mentions it, as far as it is read, and only
// where Gateway API is served.
func TestConfigMapsAreReadWhenTheyAreMentioned(t *testing.T) {
	c, client, ns := bed(t)
	definitions := kubetest.GatewayAPI(t, "gateways", "backendtlspolicies")
	configMap := "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: " + ns + "}, data: {ca.crt: %s, else: y}}\n"
	client.Apply(fmt.Sprintf(configMap, "named", "one") + fmt.Sprintf(configMap, "idle", "idle"))
	crt := func(s *snapshot.Snapshot, name string) string {
		o := s.Get(snapshot.KindConfigMap, ns, name)
		if o == nil {
			return ""
		}
		if spec := o.Spec.(*snapshot.ConfigMap); len(spec.Data) == 1 {
			return spec.Data["ca.crt"]
		}
		return "more than is read"
	}
	policy := snapshot.GroupKind{Group: "gateway.networking.k8s.io", Kind: "BackendTLSPolicy"}
	w := start(t, kube.Options{Config: c.Config(), Namespace: ns, AllSecrets: true})
	client.Apply(fmt.Sprintf(oneMapping, "m", ns, "/m/"))
	w.until("a Mapping", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "m") != nil })
	client.Apply(definitions)
	client.Apply(fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: p, namespace: %s}, spec: {targetRefs: [{group: "", kind: Service, name: s}], validation: {hostname: a.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: named}]}}}`, ns))
	w.until("the ConfigMap", func(s *snapshot.Snapshot) bool { return s.Len(policy) == 1 && crt(s, "named") == "one" })
	client.Apply(fmt.Sprintf(configMap, "named", "two"))
	w.until("it changes", func(s *snapshot.Snapshot) bool { return crt(s, "named") == "two" })
	for i, s := range w.all {
		if got := crt(s, "idle"); got != "" {
			t.Errorf("snapshot %d has %q of a ConfigMap that nobody mentions", i, got)
		}
		if s.Len(snapshot.KindConfigMap) > 0 && s.Len(policy) == 0 {
			t.Errorf("snapshot %d has a ConfigMap without anybody who mentions it", i)
		}
	}
	client.Delete(definitions)
	w.until("Gateway API is gone", func(s *snapshot.Snapshot) bool { return s.Len(snapshot.KindConfigMap) == 0 })
}
