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
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader-of-statuses}, rules: [{apiGroups: [getambassador.io], resources: ["*"], verbs: [get, list, watch]}, {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}%s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: reader-of-statuses}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader-of-statuses}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]}
`
	client.Apply(fmt.Sprintf(role, ""))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "reader"}
	r := startAs(t, c, config, "default", ns, ns, "one")
	mapping := func(name string) {
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: %[1]s, namespace: %[2]s}, spec: {hostname: "*", prefix: /%[1]s/, service: s}}`, name, ns))
	}
	mapping("m")
	kubetest.Eventually(t, 20*time.Second, "the writer has tried", func(context.Context) bool { return r.Writes() > 0 })
	for range 3 {
		select {
		case r.more <- nil: // the one who tells the writer is not held up
		case <-time.After(5 * time.Second):
			t.Fatal("the writer holds up who tells it")
		}
	}
	if s := statusOf(t, client, "Mapping", ns, "m"); s != nil {
		t.Errorf("without permission there is the status %v", s)
	}
	mapping("later")
	client.Apply(fmt.Sprintf(role, `, {apiGroups: [getambassador.io], resources: ["*/status"], verbs: [patch]}`))
	for _, name := range []string{"m", "later"} {
		kubetest.Eventually(t, 60*time.Second, name+" is told", func(context.Context) bool {
			return condition(statusOf(t, client, "Mapping", ns, name), "Programmed") != ""
		})
	}
}
