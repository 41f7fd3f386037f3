package webhook_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chancery-gateway/chancery/runtime/pipeline"
	"github.com/chancery-gateway/chancery/runtime/webhook"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/emissary"
)

func object(t testing.TB, format string, args ...any) *snapshot.Object {
	t.Helper()
	o, found := api.Decode(fmt.Appendf(nil, format, args...), snapshot.Source{}, nil)
	if o == nil {
		t.Fatal(found)
	}
	return o
}

const mapping = `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Mapping", "metadata": {"name": "m%d"}, "spec": {"hostname": "*", "prefix": %q, "prefix_regex": %t, "service": "http://127.0.0.1:1"}}`

func TestTrialSaysWhatACompileWouldSay(t *testing.T) {
	const many = 5000
	all := []*snapshot.Object{
		object(t, `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Listener", "metadata": {"name": "l"}, "spec": {"port": 8080, "protocol": "HTTP", "securityModel": "INSECURE", "hostBinding": {"namespace": {"from": "ALL"}}}}`),
		object(t, `{"apiVersion": "getambassador.io/v3alpha1", "kind": "Host", "metadata": {"name": "h"}, "spec": {"hostname": "*", "requestPolicy": {"insecure": {"action": "Route"}}}}`),
	}
	for i := range many {
		all = append(all, object(t, mapping, i, fmt.Sprintf("/%d/", i), false))
	}
	trial := &webhook.Trial{NewCompiler: func() pipeline.Compiler {
		return translators.New(translators.Options{FrontEnds: []translators.FrontEnd{emissary.New(emissary.Options{AmbassadorID: "default", Namespace: "default", BindAddress: "0.0.0.0", ReadyPort: 8006})}})
	}}
	if _, _, ok := trial.Review(all[2]); ok {
		t.Error("there is a verdict before there is a snapshot")
	}
	trial.Observe(snapshot.Empty().Derive(all, nil, nil))
	begun := time.Now()
	own, others, ok := trial.Review(object(t, mapping, 1, "/(", true))
	t.Logf("the first review took %s", time.Since(begun).Round(time.Millisecond))
	if !ok || len(others) != 0 || !slices.ContainsFunc(own, func(d snapshot.Diagnostic) bool { return d.Code.ID == "CH-MAPPING-002" && d.Severity == snapshot.Error }) {
		t.Errorf("a wrong change gives %v and %v", own, others)
	}
	var took []time.Duration
	for i := range 50 {
		begun := time.Now()
		own, others, _ := trial.Review(object(t, mapping, many+i, "/new/", false))
		took = append(took, time.Since(begun))
		if slices.ContainsFunc(own, func(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Error }) || len(others) != 0 {
			t.Fatalf("a good one gives %v and %v", own, others)
		}
	}
	slices.Sort(took)
	t.Logf("a review at %d Mappings: median %s, worst %s", many, took[25].Round(10*time.Microsecond), took[49].Round(10*time.Microsecond))
	// What is wrong with one object is not said of the next.
	if own, _, _ := trial.Review(all[3]); slices.ContainsFunc(own, func(d snapshot.Diagnostic) bool { return d.Severity == snapshot.Error }) {
		t.Errorf("the object that was wrong in the trial is wrong for good: %v", own)
	}
}
