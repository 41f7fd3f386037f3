package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
)

func TestReviewsThatPassAtOnce(t *testing.T) {
	mapping := func(ns, labels, prefix string) string {
		return fmt.Sprintf(`{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "m", "namespace": %q, "labels": {%s}}, "spec": {"hostname": "*", "prefix": %s, "service": "s:80"}}`, ns, labels, prefix)
	}
	wrong := mapping("edge", `"tier": "front"`, `[]`)
	review := func(fields string) string {
		return `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", ` + fields + `}}`
	}
	for _, x := range []struct {
		name, review string
		mutate       bool
		settings     settings.Settings
		verdict      string
	}{
		{"wrong", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{}, webhook.Refused},
		{"wrong, at the first door", review(`"operation": "CREATE", "object": ` + wrong), true, settings.Settings{}, webhook.Refused},
		{"a name that is still to be made", review(`"operation": "CREATE", "object": ` + strings.Replace(mapping("edge", "", `"/a/"`), `"name"`, `"generateName"`, 1)), true, settings.Settings{}, webhook.Allowed},
		{"a wrong one with such a name", review(`"operation": "CREATE", "object": ` + strings.Replace(wrong, `"name"`, `"generateName"`, 1)), true, settings.Settings{}, webhook.Refused},
		{"a status", review(`"operation": "UPDATE", "subResource": "status", "object": ` + wrong + `, "oldObject": ` + wrong), false, settings.Settings{}, webhook.Passed},
		{"labels", review(`"operation": "UPDATE", "object": ` + wrong + `, "oldObject": ` + mapping("edge", "", `[ ]`)), false, settings.Settings{}, webhook.Passed},
		{"a spec", review(`"operation": "UPDATE", "object": ` + wrong + `, "oldObject": ` + mapping("edge", "", `"/a/"`)), false, settings.Settings{}, webhook.Refused},
		{"another namespace", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{SingleNamespace: true, Namespace: "other"}, webhook.Passed},
		{"the own namespace", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{SingleNamespace: true, Namespace: "edge"}, webhook.Refused},
		{"other labels", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{LabelSelector: "tier=back"}, webhook.Passed},
		{"the labels that are read", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{LabelSelector: "tier=front"}, webhook.Refused},
		{"another name", review(`"operation": "CREATE", "object": ` + wrong), false, settings.Settings{FieldSelector: "metadata.name=n"}, webhook.Passed},
		{"a deletion", review(`"operation": "DELETE", "oldObject": ` + wrong), false, settings.Settings{}, webhook.Allowed},
		{"a deletion, at the first door", review(`"operation": "DELETE", "oldObject": ` + wrong), true, settings.Settings{}, webhook.Passed},
	} {
		t.Run(x.name, func(t *testing.T) {
			a := &app{settings: &x.settings, governing: &governing{}}
			answer, verdict, err := a.reviewed(t.Context(), a.newTrial(), x.mutate, []byte(x.review))
			if err != nil {
				t.Fatal(err)
			}
			var got admissionReview
			if err := json.Unmarshal(answer, &got); err != nil {
				t.Fatal(err)
			}
			r := got.Response
			if verdict != x.verdict || r == nil || r.UID != "u-1" || r.Allowed != (x.verdict != webhook.Refused) || got.Request != nil {
				t.Errorf("the verdict is %s, not %s: %s", verdict, x.verdict, answer)
			}
			if verdict == webhook.Refused && (!strings.Contains(r.Status.Message, "spec.prefix") || !strings.Contains(r.Status.Message, "[CH-API-004]")) {
				t.Errorf("the refusal is %q", r.Status.Message)
			}
		})
	}
	// What is wrong with an object does not keep it.
	plain := mapping("edge", "", `"/a/"`)
	stored, found := decodeRequest([]byte(plain))
	if stored == nil || len(found) > 0 {
		t.Fatal(stored, found)
	}
	said := stored.About(snapshot.Error, snapshot.NewCode("CH-TEST-002", "t", "c", "c"), "spec", "whoever read it said so", "")
	keeper := &app{settings: &settings.Settings{}, governing: &governing{}}
	trial := keeper.newTrial()
	trial.Observe(snapshot.Empty().Derive([]*snapshot.Object{stored}, nil, []snapshot.Diagnostic{said}))
	if answer, verdict, err := keeper.reviewed(t.Context(), trial, false, []byte(review(`"operation": "DELETE", "oldObject": `+plain))); err != nil || verdict != webhook.Allowed {
		t.Errorf("the deletion of a wrong object: %s, %v: %s", verdict, err, answer)
	}
	for _, text := range []string{review(`"operation": "CREATE"`), review(`"operation": "CREATE", "object": null`)} {
		a := &app{settings: &settings.Settings{}, governing: &governing{}}
		answer, verdict, err := a.reviewed(t.Context(), a.newTrial(), false, []byte(text))
		if err != nil || verdict != webhook.Refused || !strings.Contains(string(answer), "request.object: there is none") {
			t.Errorf("without an object: %s, %v: %s", verdict, err, answer)
		}
	}
	a := &app{settings: &settings.Settings{}, governing: &governing{}}
	for _, text := range []string{"", "[]", `{"kind": "AdmissionReview"}`, `{"kind": "Other", "request": {"uid": "u"}}`} {
		if _, verdict, err := a.reviewed(t.Context(), a.newTrial(), false, []byte(text)); err == nil || verdict != webhook.Unread {
			t.Errorf("%q gives %s, %v", text, verdict, err)
		}
	}
}

// Whose an Ingress is, its class says: nothing is said of others'.
func TestReviewsOfIngresses(t *testing.T) {
	class, _ := decodeRequest([]byte(`{"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "ours"}, "spec": {"controller": "getambassador.io/ingress-controller"}}`))
	a := &app{settings: &settings.Settings{AmbassadorID: "default", Namespace: "edge"}, governing: &governing{}}
	trial := a.newTrial()
	trial.Observe(snapshot.Empty().Derive([]*snapshot.Object{class}, nil, nil))
	for name, verdict := range map[string]string{
		`"ours"`: webhook.Refused, `"theirs"`: webhook.Passed, `null`: webhook.Passed,
	} {
		review := `{"kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "object": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i", "namespace": "edge", "uid": "1"},
			"spec": {"ingressClassName": ` + name + `, "defaultBackend": {"resource": {"kind": "Bucket", "name": "b"}}}}}}`
		answer, got, err := a.reviewed(t.Context(), trial, false, []byte(review))
		if err != nil || got != verdict {
			t.Errorf("class %s: %s, %v: %s", name, got, err, answer)
		}
	}
}
