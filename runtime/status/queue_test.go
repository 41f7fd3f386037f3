package status_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// TestNobodyWaitsForThousands: while hundreds of statuses are still to be written, which at this rate takes minutes, an object that
// is applied meanwhile is told of before them.
func TestNobodyWaitsForThousands(t *testing.T) {
	c, client, ns := bed(t)
	const many = 400
	for i := range many {
		client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m%d, namespace: %s}, spec: {hostname: "*", prefix: /%d/, service: a}}`, i, ns, i))
	}
	r := startWith(t, c, ns, status.Options{Config: c.Config(), ID: "default", Namespace: ns, Identity: "one", Rate: 10})
	kubetest.Eventually(t, patience, "the first are told", func(context.Context) bool { return r.Writes() > 5 })
	client.Apply(fmt.Sprintf(`{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: zz, namespace: %s}, spec: {hostname: "*", prefix: /zz/, service: a}}`, ns))
	kubetest.Eventually(t, patience, "the new one is told", func(context.Context) bool { return statusOf(t, client, "Mapping", ns, "zz")["state"] == "Running" })
	if n := r.Writes(); n >= many {
		t.Errorf("it was told after %d writes", n)
	} else {
		t.Logf("it was told among the first %d of %d", n, many)
	}
}
