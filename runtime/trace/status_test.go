package trace

import (
	"slices"
	"testing"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

func TestFollowSaysWhatTheStatusSays(t *testing.T) {
	const group = "gateway.networking.k8s.io"
	gateway, route := snapshot.Ref{Group: group, Kind: "Gateway", Namespace: "a", Name: "g"}, snapshot.Ref{Group: group, Kind: "HTTPRoute", Namespace: "a", Name: "r"}
	accepted := ir.Condition{Type: "Accepted", True: true, Reason: "Accepted", Message: "fine"}
	r := &translators.Result{Statuses: []*ir.Status{
		{Object: gateway, Conditions: []ir.Condition{accepted}, Listeners: []ir.ListenerStatus{{Name: "http", AttachedRoutes: 2, Conditions: []ir.Condition{
			accepted, {Type: "Conflicted", Reason: "NoConflicts"}, {Type: "ResolvedRefs", Reason: "InvalidCertificateRef", Message: "there is no Secret"}}}}},
		{Object: route, Parents: []ir.ParentStatus{{Parent: ir.ParentRef{Group: group, Kind: "Gateway", Namespace: "a", Name: "g", SectionName: "http"},
			Conditions: []ir.Condition{accepted, {Type: "PartiallyInvalid", True: true, Reason: "UnsupportedValue", Message: "a rule is wrong"}}}}},
	}}
	for _, c := range []struct {
		ref  snapshot.Ref
		want []Node
	}{
		{gateway, []Node{{Kind: "status", Name: "Gateway", Detail: "Accepted"}, {Kind: "status", Name: "listener http", Detail: "Accepted, not ResolvedRefs (InvalidCertificateRef: there is no Secret); attached routes: 2"}}},
		{route, []Node{{Kind: "status", Name: "at Gateway/a/g http", Detail: "Accepted, PartiallyInvalid (UnsupportedValue: a rule is wrong)"}}},
		{snapshot.Ref{Group: group, Kind: "Gateway", Namespace: "a", Name: "other"}, nil},
	} {
		got := Follow(r, &snapshot.Object{Ref: c.ref}).Nodes
		if !slices.EqualFunc(got, c.want, func(a, b Node) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Detail == b.Detail }) {
			t.Errorf("%v: %+v", c.ref, got)
		}
	}
}
