package kube

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// A cluster had a conversion webhook, and has none now: the API server writes the version that is asked for over whatever
// is stored, and the managers of fields name the version that the author wrote.
func TestObjectsThatAWebhookHasConverted(t *testing.T) {
	for _, x := range []struct{ name, written, stored string }{
		{"written as v2, stored as v3alpha1", `{"apiVersion":"getambassador.io/v2","kind":"Mapping","metadata":{"name":"m","namespace":"n"},"spec":{"prefix":"/","service":"s","host":"a.example.com","v3StatsName":"x"}}`, "v3alpha1"},
		{"written as v3alpha1, stored as v2", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m","namespace":"n"},"spec":{"prefix":"/","service":"s","hostname":"a.example.com","stats_name":"x"}}`, "v2"},
		{"written as v3alpha1 with an annotation, stored as v2", `{"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping","metadata":{"name":"m","namespace":"n"},"spec":{"ambassador_id":[],"prefix":"/","service":"s","hostname":"a.example.com","host":"b","stats_name":"x"}}`, "v2"},
	} {
		t.Run(x.name, func(t *testing.T) {
			text, err := api.Convert(jsontext.Value(x.written), "getambassador.io/"+x.stored)
			if err != nil {
				t.Fatal(err)
			}
			var author, u unstructured.Unstructured
			if err := author.UnmarshalJSON([]byte(x.written)); err != nil {
				t.Fatal(err)
			}
			if err := u.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
			u.SetAPIVersion(v3alpha1.APIVersion)
			err = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"manager": "m", "operation": "Update", "apiVersion": author.GetAPIVersion(),
				"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}, "metadata", "managedFields")
			if err != nil {
				t.Fatal(err)
			}
			d := decode(&u, true)
			if d.lost || len(d.findings) > 0 {
				t.Fatalf("%+v", d.findings)
			}
			if m := d.objects[0].Spec.(*v3alpha1.MappingSpec); m.Hostname != "a.example.com" || m.StatsName != "x" {
				t.Errorf("hostname %q, stats_name %q", m.Hostname, m.StatsName)
			}
		})
	}
}
