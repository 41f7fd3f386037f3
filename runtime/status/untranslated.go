package status

import (
	"encoding/json"
	"slices"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// reading is what is read of an object of Gateway API that has not been translated.
type reading struct {
	Spec struct {
		ControllerName   string
		GatewayClassName string
		ParentRef        parentReading
		ParentRefs       []parentReading
	}
}

type parentReading struct {
	Group, Kind                  *string
	Namespace, Name, SectionName string
	Port                         int32
}

func read(o *snapshot.Object) (r reading) {
	if o == nil || json.Unmarshal(o.Raw, &r) != nil {
		return reading{} // the API server has checked it
	}
	return r
}

// untranslated reports whether an object that nothing was made of is ours, and returns a route's parents that are, as JSON.
func untranslated(s *snapshot.Snapshot, o *snapshot.Object) (parents string, ours bool) {
	r := read(o)
	switch o.Kind {
	case kindGatewayClass.Kind:
		return "", slices.Contains(gatewayControllers, r.Spec.ControllerName)
	case "Gateway":
		return "", controller(s, o) != ""
	case "ListenerSet":
		return "", controller(s, r.Spec.ParentRef.find(s, o.Namespace)) != ""
	}
	var all []ir.ParentStatus
	for _, p := range r.Spec.ParentRefs {
		parent := p.find(s, o.Namespace)
		if c := controller(s, parent); c != "" {
			all = append(all, ir.ParentStatus{Controller: c, Parent: ir.ParentRef{Group: parent.Group, Kind: parent.Kind,
				Namespace: parent.Namespace, Name: parent.Name, SectionName: p.SectionName, Port: p.Port}})
		}
	}
	return text(all), len(all) > 0
}

// find returns the object that is named, nil where there is none.
func (p parentReading) find(s *snapshot.Snapshot, namespace string) *snapshot.Object {
	k := gatewayKind("Gateway")
	if p.Group != nil {
		k.Group = *p.Group
	}
	if p.Kind != nil {
		k.Kind = *p.Kind
	}
	if p.Namespace != "" {
		namespace = p.Namespace
	}
	return s.Get(k, namespace, p.Name)
}

// controller returns the name under which a Gateway or ListenerSet is ours, "" where it is not.
func controller(s *snapshot.Snapshot, o *snapshot.Object) string {
	switch {
	case o == nil:
		return ""
	case o.Kind == "ListenerSet":
		p := read(o).Spec.ParentRef
		if gateway := p.find(s, o.Namespace); gateway != nil && gateway.Kind == "Gateway" {
			return controller(s, gateway)
		}
		return ""
	}
	name := read(s.Get(kindGatewayClass, "", read(o).Spec.GatewayClassName)).Spec.ControllerName
	if !slices.Contains(gatewayControllers, name) {
		return ""
	}
	return name
}
