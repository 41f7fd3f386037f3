package command

import (
	"encoding/json"
	"testing"

	"github.com/chancery-gateway/chancery/runtime/settings"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
)

// What is wrong with an object of Gateway API itself turns it away; what another's arrival can heal does not, and nothing is
// said of other controllers' objects.
func TestReviewsOfGatewayAPI(t *testing.T) {
	const version = `"apiVersion": "gateway.networking.k8s.io/v1", "kind": `
	var there []*snapshot.Object
	for _, text := range []string{
		`{` + version + `"GatewayClass", "metadata": {"name": "ours"}, "spec": {"controllerName": "chancery.dev/gateway-controller"}}`,
		`{` + version + `"GatewayClass", "metadata": {"name": "theirs"}, "spec": {"controllerName": "example.com/other"}}`,
		`{` + version + `"Gateway", "metadata": {"name": "g", "namespace": "edge"}, "spec": {"gatewayClassName": "ours", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}`,
		`{` + version + `"Gateway", "metadata": {"name": "other", "namespace": "edge"}, "spec": {"gatewayClassName": "theirs", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]}}`,
	} {
		o, found := decodeRequest([]byte(text))
		if o == nil {
			t.Fatal(found)
		}
		there = append(there, o)
	}
	a := &app{settings: &settings.Settings{AmbassadorID: "default", Namespace: "edge"}, governing: &governing{}}
	trial := a.newTrial()
	trial.Observe(snapshot.Empty().Derive(there, nil, nil))
	route := func(parent, rule string) string {
		return version + `"HTTPRoute", "metadata": {"name": "r", "namespace": "edge", "uid": "1"}, "spec": {"parentRefs": [{"name": "` + parent + `"}], "rules": [` + rule + `]}`
	}
	for name, test := range map[string]struct{ object, verdict string }{
		"route without its Service":  {route("g", `{"backendRefs": [{"name": "later", "port": 80}]}`), webhook.Allowed},
		"route without its Gateway":  {route("later", `{}`), webhook.Allowed},
		"route without a grant":      {route("g", `{"backendRefs": [{"name": "s", "namespace": "x", "port": 80}]}`), webhook.Allowed},
		"route with a bad regex":     {route("g", `{"matches": [{"path": {"type": "RegularExpression", "value": "/("}}]}`), webhook.Refused},
		"route with a bad filter":    {route("g", `{"filters": [{"type": "ExtensionRef", "extensionRef": {"group": "", "kind": "X", "name": "x"}}]}`), webhook.Refused},
		"another controller's route": {route("other", `{"matches": [{"path": {"type": "RegularExpression", "value": "/("}}]}`), webhook.Allowed},
		"listener of no protocol":    {version + `"Gateway", "metadata": {"name": "n", "namespace": "edge", "uid": "1"}, "spec": {"gatewayClassName": "ours", "listeners": [{"name": "x", "port": 81, "protocol": "X"}]}`, webhook.Refused},
		"listener without its Secret": {version + `"Gateway", "metadata": {"name": "n", "namespace": "edge", "uid": "1"}, "spec": {"gatewayClassName": "ours", "listeners": [{"name": "x", "port": 81, "protocol": "HTTPS",
			"tls": {"certificateRefs": [{"name": "later"}]}}]}`, webhook.Allowed},
		"rules that are no list": {version + `"HTTPRoute", "metadata": {"name": "r", "namespace": "edge", "uid": "1"}, "spec": {"parentRefs": [{"name": "g"}], "rules": 7}`, webhook.Refused},
	} {
		review := `{"kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "object": {` + test.object + `}}}`
		if !json.Valid([]byte(review)) {
			t.Fatalf("%s: %s", name, review)
		}
		answer, got, err := a.reviewed(t.Context(), trial, false, []byte(review))
		if err != nil || got != test.verdict {
			t.Errorf("%s: %s, %v: %s", name, got, err, answer)
		}
	}
}
