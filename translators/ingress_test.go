package translators_test

import (
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/simulator/simtest"
)

func ingressJSON(name, host, path, service string) string {
	return fmt.Sprintf(`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": %q, "namespace": "app", "annotations": {"kubernetes.io/ingress.class": "ambassador"}}, "spec": {"rules": [{"host": %q, "http": {"paths": [{"path": %q, "pathType": "Prefix", "backend": {"service": {"name": %q, "port": {"number": 80}}}}]}}]}}`+"\n",
		name, host, path, service)
}

// TestWorkOfAnIngress: an edit costs the Ingress and what reads it: those with a wildcard, which gives way to the hosts of all.
func TestWorkOfAnIngress(t *testing.T) {
	docs := frame + `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "app"}, "spec": {"ports": [{"port": 80}]}}` + "\n" +
		ingressJSON("wild", "*.example.com", "/", "web")
	for i := range 300 {
		docs += ingressJSON(fmt.Sprintf("i-%03d", i), fmt.Sprintf("h%d.example.com", i%100), fmt.Sprintf("/p-%03d", i), "web")
	}
	st := tell(t, docs)
	if n := len(st.last.Diagnostics); n > 0 {
		t.Fatal(st.last.Diagnostics)
	}
	_, after := st.edit(ingressJSON("i-007", "h7.example.com", "/moved", "web"))
	if after.Counts.Lowered != 2 || after.Counts.Linked > 2 {
		t.Errorf("the work of one edit: %+v", after.Counts)
	}
	simtest.Expect(t, after.Program, "GET http://x:8080/moved -H 'Host: h7.example.com'", simtest.To("web_app", 100))
	simtest.Expect(t, after.Program, "GET http://x:8080/p-007 -H 'Host: h7.example.com'", simtest.NotFound())
	simtest.Expect(t, after.Program, "GET http://x:8080/p-007 -H 'Host: other.example.com'", simtest.To("web_app", 100))
	// The last rule for a host goes: the wildcard takes it.
	_, after = st.edit("", snapshot.Ref{Group: "networking.k8s.io", Kind: "Ingress", Namespace: "app", Name: "i-007"})
	simtest.Expect(t, after.Program, "GET http://x:8080/x -H 'Host: h7.example.com'", simtest.NotFound())
	for _, name := range []string{"i-107", "i-207"} {
		_, after = st.edit("", snapshot.Ref{Group: "networking.k8s.io", Kind: "Ingress", Namespace: "app", Name: name})
	}
	simtest.Expect(t, after.Program, "GET http://x:8080/x -H 'Host: h7.example.com'", simtest.To("web_app", 100))
	// All are told when the Service loses the port.
	_, after = st.edit(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "app"}, "spec": {"ports": [{"port": 81}]}}`)
	if n := len(after.Diagnostics); n != 298 || after.Counts.Lowered != 298 {
		t.Errorf("the Service lost its port: %d findings, %+v", n, after.Counts)
	}
}
