package deploy_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/chancery-gateway/chancery/runtime/deploy"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
)

// What `kubectl get` prints: the API server is asked for a table, as kubectl does.
func TestColumns(t *testing.T) {
	c := kubetest.Shared(t)
	client := kubetest.NewClient(t, c.Config())
	client.Apply(string(deploy.CRDs))
	client.Apply(`
{apiVersion: v1, kind: Namespace, metadata: {name: columns}}
---
{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: columns}, spec: {hostname: a.example.com, prefix: /p/, service: s}}
---
{apiVersion: getambassador.io/v3alpha1, kind: TCPMapping, metadata: {name: m, namespace: columns}, spec: {port: 9000, host: a.example.com, service: s}}
---
{apiVersion: getambassador.io/v3alpha1, kind: AuthService, metadata: {name: m, namespace: columns}, spec: {auth_service: s, proto: grpc}}
`)
	o := kubetest.Objects(t, []byte("{apiVersion: getambassador.io/v3alpha1, kind: Mapping, metadata: {name: m, namespace: columns}, status: {state: Inactive, reason: no such Service}}"))[0]
	if err := client.PatchStatus(o); err != nil {
		t.Fatal(err)
	}
	ask, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	for plural, want := range map[string]map[string]any{
		"mappings":     {"Name": "m", "Source Host": "a.example.com", "Source Prefix": "/p/", "Dest Service": "s", "State": "Inactive", "Reason": "no such Service"},
		"tcpmappings":  {"Name": "m", "Port": float64(9000), "Host": "a.example.com", "Service": "s"},
		"authservices": {"Name": "m", "Service": "s", "Protocol": "grpc"},
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Config().Host+"/apis/getambassador.io/v3alpha1/namespaces/columns/"+plural, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		answer, err := ask.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		var table struct {
			ColumnDefinitions []struct {
				Name string `json:"name"`
			} `json:"columnDefinitions"`
			Rows []struct {
				Cells []any `json:"cells"`
			} `json:"rows"`
		}
		err = json.NewDecoder(answer.Body).Decode(&table)
		answer.Body.Close()
		if err != nil || len(table.Rows) != 1 {
			t.Fatalf("%s: %+v (%v)", plural, table, err)
		}
		for name, cell := range want {
			var titles []string
			for _, d := range table.ColumnDefinitions {
				titles = append(titles, d.Name)
			}
			if at := slices.Index(titles, name); at < 0 || table.Rows[0].Cells[at] != cell {
				t.Errorf("%s: the column %q of %q is not %v: %v", plural, name, titles, cell, table.Rows[0].Cells)
			}
		}
	}
}
