package kube_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/kube"
)

// Every field of Gateways, ListenerSets and BackendTLSPolicies that names a Secret has it read, of another namespace too (B096).
func TestSecretsThatGatewaysMention(t *testing.T) {
	c, client, ns := bed(t)
	other, own, shared := ns+"-certificates", "own-"+ns, "shared-"+ns // names are looked for in every namespace
	client.Apply(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", other) + fmt.Sprintf(oneSecret, own, ns, "kubernetes.io/tls", "own") +
		fmt.Sprintf(oneSecret, shared, other, "kubernetes.io/tls", "wildcard") + fmt.Sprintf(oneSecret, "idle", other, "kubernetes.io/tls", "idle"))
	w := start(t, kube.Options{Config: c.Config()})
	w.first()
	elsewhere := fmt.Sprintf(`{"group": "", "kind": "Secret", "name": %q, "namespace": %q}`, shared, other)
	for _, test := range []struct{ kind, spec, want string }{
		{"Gateway", `"gatewayClassName": "gc", "listeners": [{"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "` + own + `"}]}}]`, ns + "/" + own},
		{"Gateway", `"gatewayClassName": "gc", "listeners": [{"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [` + elsewhere + `]}}]`, other + "/" + shared},
		{"Gateway", `"gatewayClassName": "gc", "tls": {"backend": {"clientCertificateRef": ` + elsewhere + `}}, "listeners": []`, other + "/" + shared},
		{"Gateway", `"gatewayClassName": "gc", "tls": {"frontend": {"default": {"validation": {"caCertificateRefs": [` + elsewhere + `]}}}}, "listeners": []`, other + "/" + shared},
		{"ListenerSet", `"parentRef": {"name": "g"}, "listeners": [{"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [` + elsewhere + `]}}]`, other + "/" + shared},
		{"BackendTLSPolicy", `"targetRefs": [], "validation": {"hostname": "a.example.com", "caCertificateRefs": [{"group": "", "kind": "Secret", "name": "` + own + `"}]}`, ns + "/" + own},
	} {
		o, found := api.Decode(fmt.Appendf(nil, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": %q, "metadata": {"name": "new", "namespace": %q}, "spec": {%s}}`, test.kind, ns, test.spec), snapshot.Source{}, nil)
		if o == nil {
			t.Fatal(found)
		}
		var got []string
		for _, s := range w.Mentioned(t.Context(), o) {
			got = append(got, s.Namespace+"/"+s.Name)
		}
		if !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s {%s} is given %v, not %s", test.kind, test.spec, got, test.want)
		}
	}
}
