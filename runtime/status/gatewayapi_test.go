package status_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/runtime/proof"
	"github.com/chancery-gateway/chancery/runtime/status"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/kube"
	"github.com/chancery-gateway/chancery/snapshot/kube/kubetest"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ir"
)

const gatewayGroup = "gateway.networking.k8s.io"

// gatewayBed is a cluster with Gateway API, in which a class, a Gateway and a route of ours are, and a writer that a test
// tells what there is to say.
type gatewayBed struct {
	*status.Writer
	t      *testing.T
	client *kubetest.Client
	ns     string
	latest chan *snapshot.Snapshot
	now    *snapshot.Snapshot
}

func newGatewayBed(t *testing.T, o status.Options) *gatewayBed {
	t.Helper()
	c, client, ns := bed(t)
	client.Apply(kubetest.GatewayAPI(t, "gatewayclasses", "gateways", "httproutes", "backendtlspolicies"))
	client.Apply(fmt.Sprintf(`
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %[1]s, annotations: {getambassador.io/ambassador-id: %[1]s}}, spec: {controllerName: chancery.dev/gateway-controller}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: %[1]s}, spec: {gatewayClassName: %[1]s, listeners: [{name: http, port: 80, protocol: HTTP}, {name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: x}]}}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: r, namespace: %[1]s}, spec: {parentRefs: [{name: g}, {name: theirs}], rules: [{backendRefs: [{name: s, port: 80}]}]}}
`, ns))
	b := &gatewayBed{t: t, client: client, ns: ns, latest: make(chan *snapshot.Snapshot, 1)}
	o.Config, o.ID, o.Namespace, o.Identity, o.Lease = c.Config(), ns, ns, "one", 30*time.Second
	b.Writer = newWriter(t, o)
	source, err := kube.New(kube.Options{Config: c.Config()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		ended <- source.Run(ctx, func(s *snapshot.Snapshot) {
			select { // the newest wins
			case <-b.latest:
			default:
			}
			b.latest <- s
		})
	}()
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// object returns an object of the newest snapshot in which it has at least this generation.
func (b *gatewayBed) object(kind, name string, generation int64) *snapshot.Object {
	b.t.Helper()
	ns := b.ns
	if kind == "GatewayClass" {
		ns = ""
	}
	var o *snapshot.Object
	kubetest.Eventually(b.t, patience, kind+" "+name+" is known", func(context.Context) bool {
		select {
		case b.now = <-b.latest:
		default:
		}
		if b.now != nil {
			o = b.now.Get(snapshot.GroupKind{Group: gatewayGroup, Kind: kind}, ns, name)
		}
		return o != nil && o.Generation >= generation
	})
	return o
}

// status makes what the translation would say of an object.
func (b *gatewayBed) status(kind, name string, generation int64, fill func(*ir.Status)) *ir.Status {
	b.t.Helper()
	o := b.object(kind, name, generation)
	s := &ir.Status{Object: o.Ref, APIVersion: o.APIVersion, Generation: o.Generation}
	fill(s)
	return s
}

func yes(kind string) ir.Condition { return ir.Condition{Type: kind, True: true, Reason: kind} }

func (b *gatewayBed) class() *ir.Status {
	return b.status("GatewayClass", b.ns, 1, func(s *ir.Status) { s.Conditions = []ir.Condition{yes("Accepted")} })
}

func (b *gatewayBed) gateway(attached int32) *ir.Status {
	kinds := []snapshot.GroupKind{{Group: gatewayGroup, Kind: "HTTPRoute"}}
	return b.status("Gateway", "g", 1, func(s *ir.Status) {
		s.Conditions = []ir.Condition{yes("Accepted")}
		s.Listeners = []ir.ListenerStatus{
			{Name: "http", SupportedKinds: kinds, AttachedRoutes: attached, Conditions: []ir.Condition{yes("Accepted"), yes("ResolvedRefs")}},
			{Name: "tls", SupportedKinds: kinds, Conditions: []ir.Condition{yes("Accepted"), {Type: "ResolvedRefs", Reason: "InvalidCertificateRef", Message: "no Secret x"},
				{Type: "Programmed", Reason: "Invalid", Message: "it has no certificate"}}},
		}
	})
}

func (b *gatewayBed) route(parents ...string) *ir.Status {
	return b.status("HTTPRoute", "r", 1, func(s *ir.Status) {
		for _, p := range parents {
			s.Parents = append(s.Parents, ir.ParentStatus{Controller: "chancery.dev/gateway-controller", Conditions: []ir.Condition{yes("Accepted"), yes("ResolvedRefs")},
				Parent: ir.ParentRef{Group: gatewayGroup, Kind: "Gateway", Namespace: b.ns, Name: p}})
		}
	})
}

// tellAnswered hands the writer statuses that an Envoy has answered.
func (b *gatewayBed) tellAnswered(all ...*ir.Status) { b.tell(slices.Clone(all), all) }

// tell hands the writer statuses, and those that an Envoy has answered.
func (b *gatewayBed) tell(answered []*ir.Status, all []*ir.Status, findings ...snapshot.Diagnostic) {
	for _, s := range [][]*ir.Status{all, answered} {
		slices.SortFunc(s, func(x, y *ir.Status) int { return x.Object.Compare(y.Object) })
	}
	b.Observe(status.Observation{Snapshot: b.now, Findings: findings, Statuses: all, Answered: answered})
}

// read returns an object's status.
func (b *gatewayBed) read(kind, name string) map[string]any {
	b.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(gatewayGroup + "/v1")
	o.SetKind(kind)
	o.SetNamespace(b.ns)
	got, err := b.client.Of(o).Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	s, _ := got.Object["status"].(map[string]any)
	return s
}

// entry returns one entry of a list, by the text of one of its fields.
func entry(s map[string]any, list, field, value string) map[string]any {
	all, _ := s[list].([]any)
	for _, e := range all {
		if m := e.(map[string]any); strings.Contains(fmt.Sprint(m[field]), value) {
			return m
		}
	}
	return nil
}

// until waits until the wanted texts begin the texts that find returns.
func (b *gatewayBed) until(what string, find func() []string, want ...string) {
	b.t.Helper()
	var got []string
	defer func() {
		if b.t.Failed() {
			b.t.Logf("%s is %q, not %q", what, got, want)
		}
	}()
	kubetest.Eventually(b.t, patience, what, func(context.Context) bool {
		got = find()
		return slices.EqualFunc(got, want, func(is, w string) bool { return strings.HasPrefix(is, w) && (w != "" || is == "") })
	})
}

func (b *gatewayBed) gatewaySays(want ...string) {
	b.t.Helper()
	b.until("the Gateway", func() []string {
		s := b.read("Gateway", "g")
		http, tls := entry(s, "listeners", "name", "http"), entry(s, "listeners", "name", "tls")
		return []string{condition(s, "Accepted"), condition(s, "Programmed"), condition(http, "Programmed"), fmt.Sprint(http["attachedRoutes"]),
			condition(tls, "Programmed"), condition(tls, "ResolvedRefs")}
	}, want...)
}

func TestGatewayAPIStatuses(t *testing.T) {
	b := newGatewayBed(t, status.Options{PublishAddresses: []string{"192.0.2.1", "gw.example.com"}})
	class, gateway, route := b.class(), b.gateway(1), b.route("g")
	// Another controller has spoken about the route, and somebody scanned the Gateway.
	b.set("HTTPRoute", "r", map[string]any{"parents": []any{map[string]any{"controllerName": "example.com/other", "conditions": []any{conditionOf("Accepted")},
		"parentRef": map[string]any{"group": gatewayGroup, "kind": "Gateway", "name": "theirs"}}}})
	b.set("Gateway", "g", map[string]any{"conditions": []any{conditionOf("example.com/Scanned")}})

	b.tellAnswered(class, gateway, route)
	b.gatewaySays("True Accepted 1", "True Programmed 1", "True Programmed 1", "1", "False Invalid 1 it has no certificate", "False InvalidCertificateRef 1")
	b.until("the class", func() []string {
		s := b.read("GatewayClass", b.ns)
		all, _ := s["supportedFeatures"].([]any)
		return []string{condition(s, "Accepted"), fmt.Sprint(len(all))}
	}, "True Accepted 1", fmt.Sprint(len(gatewayapi.Features)))
	if s := b.read("Gateway", "g"); fmt.Sprint(s["addresses"]) != "[map[type:IPAddress value:192.0.2.1] map[type:Hostname value:gw.example.com]]" || condition(s, "example.com/Scanned") == "" {
		t.Errorf("the Gateway has %v", s)
	}
	ours := func() map[string]any {
		return entry(b.read("HTTPRoute", "r"), "parents", "controllerName", "chancery.dev")
	}
	theirs := func() map[string]any {
		return entry(b.read("HTTPRoute", "r"), "parents", "controllerName", "example.com/other")
	}
	b.until("the route", func() []string { return []string{condition(ours(), "Accepted"), condition(theirs(), "Accepted")} }, "True Accepted 1", "True Fine 1")
	if text, _ := json.Marshal(ours()["parentRef"]); string(text) != fmt.Sprintf(`{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"g","namespace":%q}`, b.ns) {
		t.Errorf("the route's parent is %s", text)
	}
	b.wrote("first", 3)

	t.Run("what says the same is not written", func(t *testing.T) {
		class, route := b.class(), b.route("g")
		b.tellAnswered(class, b.gateway(1), route)
		b.tellAnswered(class, b.gateway(2), route)
		b.gatewaySays("True Accepted 1", "True Programmed 1", "True Programmed 1", "2", "False Invalid 1", "False InvalidCertificateRef 1")
		b.wrote("one that changed", 4)
	})
	t.Run("Envoy's refusal lands on the object", func(t *testing.T) {
		since := entry(b.read("Gateway", "g"), "conditions", "type", "Accepted")["lastTransitionTime"]
		class, gateway, route := b.class(), b.gateway(2), b.route("g")
		all := []*ir.Status{class, gateway, route}
		refusal := func(o snapshot.Ref) snapshot.Diagnostic {
			return snapshot.Diagnostic{Severity: snapshot.Error, Code: proof.NotAccepted, Object: o, Message: "Envoy's own words"}
		}
		b.tell(slices.Clone(all), all, refusal(gateway.Object), refusal(route.Object))
		b.gatewaySays("True Accepted 1", "False RefusedByEnvoy 1 Envoy's own words", "True Programmed 1", "2", "False Invalid 1", "False InvalidCertificateRef 1")
		b.until("the route", func() []string { return []string{condition(ours(), "Accepted"), condition(theirs(), "Accepted")} }, "False RefusedByEnvoy 1 Envoy's own words", "True Fine 1")
		if now := entry(b.read("Gateway", "g"), "conditions", "type", "Accepted")["lastTransitionTime"]; now != since {
			t.Errorf("a condition that stays has turned at %v, before at %v", now, since)
		}
		b.tellAnswered(class, gateway, route)
		b.until("the route", func() []string { return []string{condition(ours(), "Accepted")} }, "True Accepted 1")
		b.gatewaySays("True Accepted 1", "True Programmed 1", "True Programmed 1", "2", "False Invalid 1", "False InvalidCertificateRef 1")
		b.wrote("there and back", 8)
	})
	t.Run("nothing is programmed before Envoy has answered", func(t *testing.T) {
		class, gateway, route := b.class(), b.gateway(2), b.route("g")
		b.tellAnswered(class, gateway, route)
		b.client.Apply(fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g, namespace: %[1]s}, spec: {gatewayClassName: %[1]s, listeners: [{name: http, port: 81, protocol: HTTP}, {name: tls, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: x}]}}]}}`, b.ns))
		b.object("Gateway", "g", 2)
		next := b.gateway(2)
		b.tell([]*ir.Status{class, gateway, route}, []*ir.Status{class, next, route}) // no Envoy answers
		b.gatewaySays("True Accepted 2", "False Pending 2", "False Pending 2", "2", "False Invalid 2", "False InvalidCertificateRef 2")
		b.tellAnswered(class, next, route)
		b.gatewaySays("True Accepted 2", "True Programmed 2", "True Programmed 2", "2", "False Invalid 2", "False InvalidCertificateRef 2")
		b.wrote("two forms of one Gateway", 10)
	})
	t.Run("what is ours no more goes, what is others' stays", func(t *testing.T) {
		b.tellAnswered(b.class(), b.gateway(0))
		b.until("the route", func() []string { return []string{condition(ours(), "Accepted"), condition(theirs(), "Accepted")} }, "", "True Fine 1")
		b.gatewaySays("True Accepted 2", "True Programmed 2", "True Programmed 2", "0", "False Invalid 2", "False InvalidCertificateRef 2")
		b.wrote("the route and its Gateway", 12)
	})
}

func conditionOf(kind string) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": "Fine", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}
}

// set writes a status as others would.
func (b *gatewayBed) set(kind, name string, s map[string]any) {
	b.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"status": s}}
	o.SetAPIVersion(gatewayGroup + "/v1")
	o.SetKind(kind)
	o.SetNamespace(b.ns)
	o.SetName(name)
	if err := b.client.PatchStatus(o); err != nil {
		b.t.Fatal(err)
	}
}

// wrote checks how many statuses have been written since the start.
func (b *gatewayBed) wrote(what string, want int64) {
	b.t.Helper()
	if n := b.Writes(); n != want {
		b.t.Errorf("%s: %d writes, not %d", what, n, want)
	}
}

// A leader that takes over writes what is left to write, and takes away what the one before it left on a route that is not
// ours any more; without a name for its addresses a Gateway is not programmed; what policies refuse says so at its parents.
func TestGatewayAPIAfterTakingOver(t *testing.T) {
	b := newGatewayBed(t, status.Options{})
	stale := func(name, parent string) {
		b.client.Apply(fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: %s, namespace: %s}, spec: {parentRefs: [{name: %s}]}}`, name, b.ns, parent))
		b.set("HTTPRoute", name, map[string]any{"parents": []any{map[string]any{"controllerName": "getambassador.io/gateway-controller", "conditions": []any{conditionOf("Accepted")},
			"parentRef": map[string]any{"group": gatewayGroup, "kind": "Gateway", "name": parent}}}})
	}
	stale("stale", "theirs")
	// Another installation answers under the same name: its entry is none of ours.
	b.client.Apply(fmt.Sprintf(`
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: %[1]s-other, annotations: {getambassador.io/ambassador-id: other}}, spec: {controllerName: getambassador.io/gateway-controller}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: other, namespace: %[1]s}, spec: {gatewayClassName: %[1]s-other, listeners: [{name: http, port: 80, protocol: HTTP}]}}
`, b.ns))
	stale("elsewhere", "other")
	b.object("GatewayClass", b.ns+"-other", 1)
	b.object("Gateway", "other", 1)
	b.object("HTTPRoute", "elsewhere", 1)
	b.client.Apply(fmt.Sprintf(`{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: foreign, namespace: %s}, spec: {parentRefs: [{name: theirs}]}}`, b.ns))
	b.object("HTTPRoute", "stale", 1)
	b.object("HTTPRoute", "foreign", 1)
	all := []*ir.Status{b.class(), b.gateway(0)}
	denied := b.now.Get(snapshot.GroupKind{Group: gatewayGroup, Kind: "HTTPRoute"}, b.ns, "r")
	b.tell(slices.Clone(all), all, denied.About(snapshot.Error, proof.NotAccepted, "spec.rules", "no route without a timeout", ""))
	b.gatewaySays("True Accepted 1", "False AddressNotAssigned 1 it is served, but at which address is not known", "True Programmed 1", "0", "False Invalid 1", "False InvalidCertificateRef 1")
	b.until("the denied route", func() []string {
		s := b.read("HTTPRoute", "r")
		return []string{condition(entry(s, "parents", "parentRef", "name:g"), "Accepted"), fmt.Sprint(len(s["parents"].([]any)))}
	}, "False Invalid 1 spec.rules: no route without a timeout", "1")
	b.until("the stale route", func() []string { return []string{fmt.Sprint(b.read("HTTPRoute", "stale"))} }, "map[parents:[]]")
	if s := b.read("HTTPRoute", "elsewhere"); condition(entry(s, "parents", "controllerName", "getambassador.io"), "Accepted") == "" {
		t.Errorf("a route of another installation has %v", s)
	}
	if s := b.read("HTTPRoute", "foreign"); s != nil {
		t.Errorf("a route that never was ours has %v", s)
	}
	b.wrote("class, Gateway, and two routes", 4)
}
