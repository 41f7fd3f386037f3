package status_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// TestStatusWithoutPermission: a writer that may not write holds nobody up, and writes once it may.
func TestStatusWithoutPermission(t *testing.T) {
	c, client, ns := bed(t)
	const role = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [{apiGroups: [getambassador.io], resources: ["*"], verbs: [get, list, watch]}, {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]}
`
	client.Apply(fmt.Sprintf(role, ns, ""))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: ns}
	r := startAs(t, c, config, "default", ns, ns, "one")
	mapping := func(name string) {
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[1]s, namespace: %[2]s}, spec: {hostname: "*", prefix: /%[1]s/, service: s}}`, name, ns))
	}
	mapping("m")
	kubetest.Eventually(t, patience, "the writer has tried", func(context.Context) bool { return r.Writes() > 0 })
	for range 3 {
		select {
		case r.more <- nil: // the one who tells the writer is not held up
		case <-time.After(patience):
			t.Fatal("the writer holds up who tells it")
		}
	}
	if s := statusOf(t, client, "Mapping", ns, "m"); s != nil {
		t.Errorf("without permission there is the status %v", s)
	}
	mapping("later")
	client.Apply(fmt.Sprintf(role, ns, `, {apiGroups: [getambassador.io], resources: ["*/status"], verbs: [patch]}`))
	for _, name := range []string{"m", "later"} {
		kubetest.Eventually(t, patience, name+" is told", func(context.Context) bool {
			return condition(statusOf(t, client, "Mapping", ns, name), "Programmed") != ""
		})
	}
}
