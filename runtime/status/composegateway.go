package status

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/translators/gatewayapi"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// composeGateway returns the merge patch of the status of an object of Gateway API. turned tells that the object went from
// good to bad or back, or is bad from the start.
func composeGateway(o *unstructured.Unstructured, c composer) (patch map[string]any, turned, needed bool) {
	before, _ := o.Object["status"].(map[string]any)
	want, status := c.want, map[string]any{}
	switch kind := o.GetKind(); {
	case kind == "GatewayClass":
		status["conditions"] = c.conditions(before, c.wanted(kind))
		if want.Addresses != "" {
			status["supportedFeatures"] = json.RawMessage(want.Addresses)
		}
	case kind == "Gateway" || kind == "ListenerSet":
		status["conditions"] = c.conditions(before, c.wanted(kind))
		if want.Status == nil {
			break // the rest stays as it was
		}
		status["listeners"] = c.listeners(before)
		if kind == "Gateway" {
			status["addresses"], status["attachedListenerSets"] = c.addresses(), want.Status.ListenerSets
		}
	default:
		field, ref := "parents", "parentRef"
		if kind == "BackendTLSPolicy" {
			field, ref = "ancestors", "ancestorRef"
		}
		all := c.parents(before, field, ref)
		if len(all) == 0 && before[field] == nil {
			return nil, false, false
		}
		status[field] = all
	}
	was, is := faultOf(before), faultOf(plain(status))
	turned = (was == "") != (is == "")
	return map[string]any{"metadata": map[string]any{"resourceVersion": o.GetResourceVersion()}, "status": status}, turned, !says(before, status)
}

// composer makes the parts of one status.
type composer struct {
	want     Outcome
	now      time.Time
	snapshot *snapshot.Snapshot
	id       string
	// namespace is the object's own.
	namespace string
}

// others reports whether an entry about a parent is that of another controller, or of another installation.
func (c composer) others(controllerName string, ref any) bool {
	if !slices.Contains(gatewayapi.Controllers, controllerName) {
		return true
	}
	m, _ := ref.(map[string]any)
	field := func(name, absent string) string {
		if value, _ := m[name].(string); value != "" {
			return value
		}
		return absent
	}
	k := snapshot.GroupKind{Group: field("group", gatewayGroup), Kind: field("kind", "Gateway")}
	_, another := controller(c.snapshot, c.snapshot.Get(k, field("namespace", c.namespace), field("name", "")), c.id)
	return another
}

// conditions returns the wanted ones, with the times of those that stay, behind those of others.
func (c composer) conditions(before map[string]any, want []ir.Condition) []metav1.Condition {
	out, old := []metav1.Condition{}, map[string]metav1.Condition{}
	for _, is := range conditions(before) {
		if gatewayConditions[is.Type] {
			old[is.Type] = is
		} else {
			out = append(out, is)
		}
	}
	for _, w := range want {
		out = append(out, condition(old, w.Type, w.True, w.Reason, clip(w.Message), c.want.Generation, c.now))
	}
	return out
}

// wanted returns the conditions of a GatewayClass, Gateway or ListenerSet as a whole.
func (c composer) wanted(kind string) []ir.Condition {
	switch {
	case c.want.Status != nil && kind == api.KindGatewayClass.Kind:
		return c.want.Status.Conditions
	case c.want.Status != nil:
		return c.heard(c.want.Status.Conditions, kind)
	case kind == api.KindGatewayClass.Kind:
		return []ir.Condition{{Type: accepted, Reason: "Invalid", Message: c.want.Fault}}
	}
	return []ir.Condition{{Type: accepted, Reason: "Invalid", Message: c.want.Fault}, {Type: programmed, Reason: "Invalid", Message: c.want.Fault}}
}

// heard returns conditions of a Gateway or ListenerSet, or of one of its listeners (kind ""), with what was heard of Envoy.
func (c composer) heard(said []ir.Condition, kind string) []ir.Condition {
	no := func(name string) bool {
		return slices.ContainsFunc(said, func(is ir.Condition) bool { return is.Type == name && !is.True })
	}
	is := ir.Condition{Type: programmed, True: true, Reason: "Programmed"}
	switch {
	case no(programmed):
		return said
	case no(accepted):
		is = ir.Condition{Type: programmed, Reason: "Invalid", Message: "it is not accepted"}
	case c.want.Refused && (kind != "" || len(c.want.Status.Listeners) == 1):
		is = ir.Condition{Type: programmed, Reason: "RefusedByEnvoy", Message: c.want.Fault}
	case !c.want.Programmed:
		is = ir.Condition{Type: programmed, Reason: "Pending", Message: "no Envoy has answered this configuration yet"}
	case kind == "Gateway" && len(c.addresses()) == 0:
		is = ir.Condition{Type: programmed, Reason: "AddressNotAssigned", Message: "it is served, but at which address is not known: " +
			"the settings publish-service and publish-addresses name one, gateway-addresses a range"}
	}
	out := slices.DeleteFunc(slices.Clone(said), func(is ir.Condition) bool { return is.Type == programmed })
	return append(out, is)
}

func (c composer) listeners(before map[string]any) []any {
	old := map[string]map[string]any{}
	list, _ := before["listeners"].([]any)
	for _, l := range list {
		if m, is := l.(map[string]any); is {
			name, _ := m["name"].(string)
			old[name] = m
		}
	}
	out := []any{}
	for _, l := range c.want.Status.Listeners {
		kinds := []any{}
		for _, k := range l.SupportedKinds {
			kinds = append(kinds, map[string]any{"group": k.Group, "kind": k.Kind})
		}
		out = append(out, map[string]any{"name": l.Name, "supportedKinds": kinds, "attachedRoutes": l.AttachedRoutes,
			"conditions": c.conditions(old[l.Name], c.heard(l.Conditions, ""))})
	}
	return out
}

// addresses returns those that the translation names, else those that are published.
func (c composer) addresses() []any {
	out := []any{}
	for _, a := range c.want.Status.Addresses {
		out = append(out, map[string]any{"type": a.Type, "value": a.Value})
	}
	var published []struct{ IP, Hostname string }
	if len(out) == 0 && json.Unmarshal([]byte(c.want.Addresses), &published) == nil {
		for _, p := range published {
			if p.IP != "" {
				out = append(out, map[string]any{"type": "IPAddress", "value": p.IP})
			} else {
				out = append(out, map[string]any{"type": "Hostname", "value": p.Hostname})
			}
		}
	}
	return out[:min(len(out), room["addresses"])]
}

// parents returns a route's parents or a policy's ancestors: those of others as they are, ours as they are to be.
func (c composer) parents(before map[string]any, field, refField string) []any {
	var want []ir.ParentStatus
	switch {
	case c.want.Status != nil:
		want = c.want.Status.Parents
	case c.want.Parents != "":
		if err := json.Unmarshal([]byte(c.want.Parents), &want); err != nil {
			want = nil // our own text
		}
		for i := range want {
			want[i].Conditions = []ir.Condition{{Type: accepted, Reason: "Invalid", Message: c.want.Fault}}
		}
	}
	type entry struct{ controller, ref string }
	key := func(m map[string]any) entry {
		controller, _ := m["controllerName"].(string)
		return entry{controller, text(m[refField])}
	}
	fresh := map[entry]map[string]any{}
	var order []entry
	for _, p := range want {
		m := map[string]any{"controllerName": p.Controller, refField: parentRef(p.Parent)}
		e := key(m)
		if fresh[e] == nil {
			order = append(order, e)
			m["conditions"] = p.Conditions
			fresh[e] = m
		}
	}
	out := []any{}
	list, _ := before[field].([]any)
	for _, is := range list {
		m, _ := is.(map[string]any)
		e := key(m)
		switch now := fresh[e]; {
		case c.others(e.controller, m[refField]):
			out = append(out, is)
		case now != nil:
			now["conditions"] = c.conditions(m, c.answered(now["conditions"].([]ir.Condition)))
			out = append(out, now)
			delete(fresh, e)
		}
	}
	for _, e := range order {
		if now := fresh[e]; now != nil {
			now["conditions"] = c.conditions(nil, c.answered(now["conditions"].([]ir.Condition)))
			out = append(out, now)
		}
	}
	return out[:min(len(out), room[field])] // what was there stands before what is new
}

// room is how many entries the API server takes in a list of a status, which it else refuses as a whole. Source: Gateway API,
// PolicyStatus.ancestors, RouteStatus.parents, GatewayStatus.addresses.
var room = map[string]int{"ancestors": 16, "parents": 32, "addresses": 16}

// answered returns the conditions of a route or policy with what was heard of Envoy.
func (c composer) answered(want []ir.Condition) []ir.Condition {
	if !c.want.Refused {
		return want
	}
	out := slices.DeleteFunc(slices.Clone(want), func(is ir.Condition) bool { return is.Type == accepted })
	return append([]ir.Condition{{Type: accepted, Reason: "RefusedByEnvoy", Message: c.want.Fault}}, out...)
}

// parentRef writes a reference in the order and with the fields that the API server keeps.
func parentRef(p ir.ParentRef) map[string]any {
	m := map[string]any{"group": p.Group, "kind": p.Kind, "name": p.Name}
	if p.Namespace != "" {
		m["namespace"] = p.Namespace
	}
	if p.SectionName != "" {
		m["sectionName"] = p.SectionName
	}
	if p.Port != 0 {
		m["port"] = p.Port
	}
	return m
}

// faultOf returns the first thing that a status of ours says is wrong, "" for nothing.
func faultOf(status any) string {
	m, _ := status.(map[string]any)
	bad := func(of map[string]any) string {
		for _, is := range conditions(of) {
			wrong := is.Status == metav1.ConditionFalse && (is.Type == accepted || is.Type == programmed || is.Type == "ResolvedRefs")
			if wrong && is.Reason != "Pending" {
				return is.Type + " is false: " + is.Message
			}
		}
		return ""
	}
	if text := bad(m); text != "" {
		return text
	}
	for _, field := range []string{"parents", "ancestors"} {
		list, _ := m[field].([]any)
		for _, is := range list {
			entry, _ := is.(map[string]any)
			if controller, _ := entry["controllerName"].(string); !slices.Contains(gatewayapi.Controllers, controller) {
				continue
			}
			if text := bad(entry); text != "" {
				return text
			}
		}
	}
	return ""
}

// clip cuts a message to what the API takes. Source: Kubernetes API conventions, Condition: 32768 characters at most.
func clip(message string) string { return join("", message) }
