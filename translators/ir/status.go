package ir

import "github.com/chancery-gateway/chancery/snapshot"

// Status is what a front end says became of one source object of Gateway API, in the terms of its status. It is data of
// the translation: whoever writes it to a cluster adds times and what was heard of Envoy. Nothing in it changes after it
// was made.
type Status struct {
	Object     snapshot.Ref
	APIVersion string
	// Generation is the object's metadata.generation that everything in it is about (observedGeneration).
	Generation int64
	// Conditions are those of a GatewayClass, Gateway or ListenerSet as a whole.
	Conditions []Condition
	// Addresses are a Gateway's (status.addresses).
	Addresses []StatusAddress
	// ListenerSets is the number of ListenerSets that are attached to a Gateway.
	ListenerSets int32
	// Listeners are those of a Gateway or ListenerSet, in the order of its spec.
	Listeners []ListenerStatus
	// Parents are a route's parentRefs and a policy's ancestors that belong to Gateways of ours, in the order of its spec.
	Parents []ParentStatus
}

// Condition is one condition. True, reason and message are as Gateway API names them.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// StatusAddress is one address. Type is "IPAddress", "Hostname" or a name of an implementation's own.
type StatusAddress struct{ Type, Value string }

// ListenerStatus is the status of one listener of a Gateway or ListenerSet.
type ListenerStatus struct {
	Name string
	// SupportedKinds are the kinds of routes that may attach.
	SupportedKinds []snapshot.GroupKind
	// AttachedRoutes counts the routes that are attached. The front end leaves it 0; the compiler counts.
	AttachedRoutes int32
	Conditions     []Condition
}

// ParentRef names what a route is attached to or a policy is in effect on, as the object itself wrote it. The group, kind
// and namespace that it left out are filled in.
type ParentRef struct {
	Group, Kind, Namespace, Name string
	// SectionName is "" and Port 0 where the object says none.
	SectionName string
	Port        int32
}

// Ref is the object that is named.
func (p ParentRef) Ref() snapshot.Ref {
	return snapshot.Ref{Group: p.Group, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
}

// ParentStatus is what became of a route at one parent, or of a policy at one ancestor.
type ParentStatus struct {
	Parent ParentRef
	// Controller is the controllerName of the parent's GatewayClass: who speaks.
	Controller string
	Conditions []Condition
	// Attached are the names of the parent's listeners that the route is attached to.
	Attached []string
}
