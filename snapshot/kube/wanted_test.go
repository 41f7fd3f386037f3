package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// definitionOf is a CustomResourceDefinition without a schema.
func definitionOf(kind, group string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, plural, group, kind)
}

// TestKindsOfOthers: a kind that somebody asks for is watched from when the API server serves it, and leaves when nobody asks any more.
func TestKindsOfOthers(t *testing.T) {
	c, client, ns := bed(t)
	page := snapshot.GroupKind{Group: "also.example.com", Kind: "Page"}
	w := start(t, kube.Options{Config: c.Config()})
	w.first()
	kubetest.Eventually(t, patience, "nothing was asked for, so that all of it is listed", func(context.Context) bool { return w.Listed() })
	about := func(s *snapshot.Snapshot) int {
		n := 0
		for _, d := range s.Findings() {
			if d.Code.ID == "CH-KUBE-006" && d.Object.GroupKind() == page {
				n++
			}
		}
		return n
	}
	w.Also([]snapshot.GroupKind{page, {Kind: "Secret"}, {Group: "getambassador.io", Kind: "Mapping"}})
	w.until("a finding about the absent kind", func(s *snapshot.Snapshot) bool { return about(s) == 1 })

	client.Apply(definitionOf("Page", page.Group))
	client.Apply(fmt.Sprintf(`{apiVersion: also.example.com/v1, kind: Page, metadata: {name: one, namespace: %s}, spec: {body: hello}}`, ns))
	w.until("its object", func(s *snapshot.Snapshot) bool { return s.Get(page, ns, "one") != nil && about(s) == 0 })
	if raw := string(w.now().Get(page, ns, "one").Raw); !strings.Contains(raw, `"body":"hello"`) {
		t.Errorf("the object's text is %s", raw)
	}
	client.Apply(fmt.Sprintf(`{apiVersion: also.example.com/v1, kind: Page, metadata: {name: one, namespace: %s}, spec: {body: changed}}`, ns))
	w.until("its change", func(s *snapshot.Snapshot) bool {
		o := s.Get(page, ns, "one")
		return o != nil && strings.Contains(string(o.Raw), "changed")
	})

	w.Also(nil)
	w.until("its end", func(s *snapshot.Snapshot) bool { return s.Get(page, ns, "one") == nil })
	client.Apply(fmt.Sprintf(`{apiVersion: also.example.com/v1, kind: Page, metadata: {name: two, namespace: %s}}`, ns))
	client.Apply(fmt.Sprintf(oneMapping, "later", ns, "/later/"))
	w.until("an object that is watched always", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "later") != nil })
	if w.now().Get(page, ns, "two") != nil {
		t.Error("a kind that nobody asks for is watched still")
	}

	// Asked for again: one delivery is owed, even when there is nothing.
	client.Delete(fmt.Sprintf(`{apiVersion: also.example.com/v1, kind: Page, metadata: {name: one, namespace: %s}}`, ns))
	client.Delete(fmt.Sprintf(`{apiVersion: also.example.com/v1, kind: Page, metadata: {name: two, namespace: %s}}`, ns))
	before := w.delivered()
	w.Also([]snapshot.GroupKind{page})
	kubetest.Eventually(t, patience, "a delivery", func(context.Context) bool { return w.delivered() > before })
	kubetest.Eventually(t, patience, "the kind is listed", func(context.Context) bool { return w.Listed() })
	client.Delete(definitionOf("Page", page.Group))
}

// TestKindsOfOthersNeedPermission: a kind that may not be read is named in a finding and keeps nobody waiting; once it is granted, in
// the way that the modules' documentation shows, its objects are there.
func TestKindsOfOthersNeedPermission(t *testing.T) {
	c, client, ns := bed(t)
	page := snapshot.GroupKind{Group: "grant.example.com", Kind: "Page"}
	client.Apply(definitionOf("Page", page.Group))
	client.Apply(fmt.Sprintf(`{apiVersion: grant.example.com/v1, kind: Page, metadata: {name: one, namespace: %s}}`, ns))
	var rules []string
	for _, r := range kube.Resources() {
		rules = append(rules, fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [get, list, watch]}`, r.Group, r.Name))
	}
	role := func(name, rules string) string {
		return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules: [%[2]s]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: User, name: %[3]s, apiGroup: rbac.authorization.k8s.io}]
`, name, rules, ns)
	}
	client.Apply(role(ns, strings.Join(rules, ", ")))
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: ns}
	w := start(t, kube.Options{Config: config, Rescan: time.Second})
	w.first()
	w.Also([]snapshot.GroupKind{page})
	w.until("a finding that names the kind", func(s *snapshot.Snapshot) bool { return codes(s) == "CH-KUBE-001 Page" })
	for _, d := range w.now().Findings() {
		if d.Code.ID == "CH-KUBE-001" && (d.Severity != snapshot.Warning || !strings.Contains(d.Message, "pages.grant.example.com")) {
			t.Errorf("the finding is %s", d)
		}
	}
	kubetest.Eventually(t, patience, "nobody waits for it", func(context.Context) bool { return w.Listed() })
	client.Apply(fmt.Sprintf(oneMapping, "meanwhile", ns, "/meanwhile/"))
	w.until("other objects", func(s *snapshot.Snapshot) bool { return mapping(s, ns, "meanwhile") != nil })
	client.Apply(role(ns+"-pages", `{apiGroups: [grant.example.com], resources: [pages], verbs: [get, list, watch]}`))
	w.until("its object once it may be read", func(s *snapshot.Snapshot) bool { return s.Get(page, ns, "one") != nil && codes(s) == "" })
}
