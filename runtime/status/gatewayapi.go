package status

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
)

const gatewayGroup = gw.GroupName

// gatewayKinds are those of Gateway API whose status is written.
var gatewayKinds = []kind{
	{api.KindGatewayClass, "gatewayclasses", "v1"},
	{api.KindGateway, "gateways", "v1"},
	{api.KindListenerSet, "listenersets", "v1"},
	{api.KindHTTPRoute, "httproutes", "v1"},
	{api.KindGRPCRoute, "grpcroutes", "v1"},
	{api.KindTLSRoute, "tlsroutes", "v1"},
	{api.KindTCPRoute, "tcproutes", "v1"},
	{api.KindUDPRoute, "udproutes", "v1"},
	{api.KindBackendTLSPolicy, "backendtlspolicies", "v1"},
}

// features are those of Gateway API that a GatewayClass of ours is said to support, JSON.
var features = func() string {
	var all []any
	for _, f := range gatewayapi.Features {
		all = append(all, map[string]any{"name": f})
	}
	return text(all)
}()

// gatewayConditions are the types of conditions that a controller of Gateway API writes; those of others stay.
// Source: Gateway API, package apis/v1.
var gatewayConditions = map[string]bool{
	accepted: true, programmed: true, "ResolvedRefs": true, "Conflicted": true, "PartiallyInvalid": true, "SupportedVersion": true,
	"OverlappingTLSConfig": true, "InsecureFrontendValidationMode": true, "Ready": true, "Scheduled": true,
}

// patience is how long the status of an object waits for the answer of an Envoy to what was made of it.
const patience = 3 * time.Second

// gateways returns what there is to say about each object of Gateway API: of routes and policies about those too that are none
// of ours, nothing of ours is to be said there. waiting are those whose present form no Envoy has answered yet.
func gateways(o Observation, id, addresses string) (out map[snapshot.Ref]Outcome, waiting map[snapshot.Ref]bool) {
	out, waiting = map[snapshot.Ref]Outcome{}, map[snapshot.Ref]bool{}
	for _, k := range gatewayKinds[3:] {
		for object := range o.Snapshot.List(k.GroupKind) {
			out[object.Ref] = Outcome{APIVersion: object.APIVersion, UID: object.UID, Generation: object.Generation, Foreign: true}
		}
	}
	answered := o.Answered
	for _, s := range o.Statuses {
		r := s.Object
		is := Outcome{APIVersion: s.APIVersion, Generation: s.Generation, Status: s}
		if object := o.Snapshot.Get(r.GroupKind(), r.Namespace, r.Name); object != nil {
			is.UID = object.UID
		}
		for len(answered) > 0 && answered[0].Object.Compare(r) < 0 {
			answered = answered[1:]
		}
		switch {
		case r.GroupKind() == api.KindGatewayClass:
			is.Programmed, is.Addresses = true, features
		case len(answered) > 0 && answered[0] == s:
			is.Programmed = true
		default:
			waiting[r] = true
			is.Programmed = len(answered) > 0 && answered[0].Object == r && answered[0].Generation == s.Generation
		}
		if r.Kind == "Gateway" && len(s.Addresses) == 0 {
			is.Addresses = addresses
		}
		out[r] = is
	}
	for i := range o.Findings {
		d := &o.Findings[i]
		if d.Severity != snapshot.Error || d.Object.Group != gatewayGroup {
			continue
		}
		is := out[d.Object]
		if is.Status != nil {
			if refusal(d.Code) {
				is.Fault, is.Refused = join(is.Fault, sentence(d)), true
				out[d.Object] = is
			}
			continue
		}
		object := o.Snapshot.Get(d.Object.GroupKind(), d.Object.Namespace, d.Object.Name)
		if object == nil {
			continue
		}
		if parents, ours := untranslated(o.Snapshot, object, id); ours { // a policy refused it, for example
			out[d.Object] = Outcome{APIVersion: object.APIVersion, UID: object.UID, Generation: object.Generation,
				Parents: parents, Fault: join(is.Fault, sentence(d))}
		}
	}
	return out, waiting
}

// present reports whether there are objects of the kind, and sets the version in which they are read.
func (w *Writer) present(k kind, resource *schema.GroupVersionResource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for o := range w.observed.Snapshot.List(k.GroupKind) {
		resource.Version = strings.TrimPrefix(o.APIVersion, k.Group+"/")
		return true
	}
	return false
}

// holds returns for how long the status of an object is still to wait for the answer of an Envoy. The lock is held.
func (w *Writer) holds(r snapshot.Ref) time.Duration {
	if !w.waiting[r] {
		delete(w.held, r)
		return 0
	}
	if _, met := w.held[r]; !met {
		w.held[r] = time.Now()
	}
	return max(0, patience-time.Since(w.held[r]))
}
