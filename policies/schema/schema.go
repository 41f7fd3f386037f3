// Package schema says in JSON schema what rules are given: the input document and data.chancery.index. Rules are
// type-checked against these when they are loaded, and people read them with `chancery policy schema`.
package schema

import (
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	networking "k8s.io/api/networking/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// Schema is a JSON schema as plain data.
type Schema = map[string]any

func object(properties Schema) Schema { return Schema{"type": "object", "properties": properties} }
func array(items any) Schema          { return Schema{"type": "array", "items": items} }
func described(text string, s Schema) Schema {
	s = maps.Clone(s)
	s["description"] = text
	return s
}

var (
	text    = Schema{"type": "string"}
	number  = Schema{"type": "number"}
	truth   = Schema{"type": "boolean"}
	strMap  = Schema{"type": "object", "additionalProperties": text}
	textual = reflect.TypeFor[encoding.TextUnmarshaler]()
	raw     = reflect.TypeFor[jsontext.Value]()
)

// Of returns the schema of a Go type by its JSON names. Types whose JSON form is their own business may be anything.
func Of(t reflect.Type) Schema {
	switch {
	case t == raw:
		return Schema{}
	case t.Kind() == reflect.Pointer:
		return Of(t.Elem())
	case reflect.PointerTo(t).Implements(textual):
		return text
	case reflect.PointerTo(t).NumMethod() > 0 && hasMethod(t, "UnmarshalJSONFrom", "UnmarshalJSON"):
		return Schema{}
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return truth
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return number
	case reflect.Slice:
		return array(Of(t.Elem()))
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": Of(t.Elem())}
	case reflect.Struct:
		properties := Schema{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous && name == "":
				maps.Copy(properties, Of(f.Type)["properties"].(Schema))
			case name != "" && name != "-":
				properties[name] = Of(f.Type)
			}
		}
		return object(properties)
	}
	return Schema{}
}

func hasMethod(t reflect.Type, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := reflect.PointerTo(t).MethodByName(n); return ok })
}

// metadata is what Chancery keeps of an object's metadata.
var metadata = object(Schema{
	"name": text, "namespace": text, "uid": text, "generation": number, "creationTimestamp": text,
	"labels": strMap, "annotations": strMap,
})

// Kinds are the kinds whose fields are known: Emissary's, sorted by name, and those of others.
var Kinds = []snapshot.GroupKind{
	v3alpha1.KindAuthService, v3alpha1.KindConsulResolver, v3alpha1.KindHost,
	v3alpha1.KindKubernetesEndpointResolver, v3alpha1.KindKubernetesServiceResolver, v3alpha1.KindListener, v3alpha1.KindLogService,
	v3alpha1.KindMapping, v3alpha1.KindModule, v3alpha1.KindRateLimitService, v3alpha1.KindTCPMapping, v3alpha1.KindTLSContext,
	v3alpha1.KindTracingService,
	// Kinds of others, by name.
	{Group: groupGateway, Kind: "GRPCRoute"}, {Group: groupGateway, Kind: "Gateway"}, {Group: groupGateway, Kind: "HTTPRoute"},
	{Group: "networking.k8s.io", Kind: "Ingress"}, {Group: groupGateway, Kind: "ListenerSet"}, {Group: groupGateway, Kind: "TCPRoute"},
	{Group: groupGateway, Kind: "TLSRoute"},
}

const groupGateway = "gateway.networking.k8s.io"

// foreign are the specs of the kinds of others.
var foreign = map[snapshot.GroupKind]reflect.Type{
	{Group: "networking.k8s.io", Kind: "Ingress"}: reflect.TypeFor[networking.IngressSpec](),
	{Group: groupGateway, Kind: "Gateway"}:        reflect.TypeFor[gw.GatewaySpec](),
	{Group: groupGateway, Kind: "ListenerSet"}:    reflect.TypeFor[gw.ListenerSetSpec](),
	{Group: groupGateway, Kind: "HTTPRoute"}:      reflect.TypeFor[gw.HTTPRouteSpec](),
	{Group: groupGateway, Kind: "GRPCRoute"}:      reflect.TypeFor[gw.GRPCRouteSpec](),
	{Group: groupGateway, Kind: "TLSRoute"}:       reflect.TypeFor[gw.TLSRouteSpec](),
	{Group: groupGateway, Kind: "TCPRoute"}:       reflect.TypeFor[gw.TCPRouteSpec](),
}

// Object returns the schema of one kind's objects; of a kind whose fields are not known, one with an open spec.
func Object(k snapshot.GroupKind) Schema {
	properties := Schema{"apiVersion": text, "kind": text, "metadata": metadata}
	if spec := v3alpha1.New(k); spec != nil {
		properties["spec"] = Of(reflect.TypeOf(spec))
	} else if t := foreign[k]; t != nil {
		properties["spec"] = Of(t)
	} else {
		properties["spec"], properties["data"] = Schema{}, Schema{}
	}
	return object(properties)
}

// byName finds a kind by "Kind" or "Kind.group".
func byName(name string) snapshot.GroupKind {
	kind, group, qualified := strings.Cut(name, ".")
	for _, k := range Kinds {
		if k.Kind == kind && (!qualified || k.Group == group) {
			return k
		}
	}
	return snapshot.GroupKind{Group: group, Kind: kind}
}

// Objects returns the schema of objects of any of the kinds, named "Kind" or "Kind.group"; without names of every kind that
// is known. Where one of the kinds has an open spec nothing is known of the spec.
func Objects(names []string) Schema {
	if len(names) == 1 {
		return Object(byName(names[0]))
	}
	var any []any
	if len(names) == 0 {
		for _, k := range Kinds {
			any = append(any, Object(k))
		}
		return Schema{"anyOf": any}
	}
	for _, n := range names {
		any = append(any, Object(byName(n)))
	}
	return Schema{"anyOf": any}
}

// Input returns the schema of the input of admission rules for objects of the kinds. parameters is the policy's own schema; nil for any.
func Input(kinds []string, parameters any) Schema {
	o := Objects(kinds)
	if parameters == nil {
		parameters = Schema{}
	}
	return object(Schema{
		"object":     described("the object in its newest version", o),
		"old":        described("the object as it was admitted last, absent for a new one", o),
		"operation":  described("CREATE, UPDATE or DELETE", text),
		"point":      described("where the policy is asked: cli, webhook, compile or audit", text),
		"namespace":  described("the object's namespace", object(Schema{"name": text, "labels": strMap})),
		"tenant":     described("the tenant that the namespace belongs to, with empty fields for none", tenant),
		"parameters": parameters,
	})
}

var tenant = object(Schema{"name": text, "owner": text, "namespaces": array(text), "hosts": array(text), "limits": Schema{"type": "object", "additionalProperties": number}})

var claim = object(Schema{"kind": text, "namespace": text, "name": text, "tenant": text, "created": text})

// table returns the schema of an object with free names.
func table(entry Schema) Schema { return Schema{"type": "object", "additionalProperties": entry} }

// Index returns the schema of data.chancery.index.
var Index = sync.OnceValue(func() Schema {
	return object(Schema{
		"hosts":      described("host name → claims by Host objects, the oldest first", table(array(claim))),
		"services":   described(`"namespace/name" → Service`, table(object(Schema{"namespace": text, "name": text, "tenant": text, "labels": strMap, "ports": array(object(Schema{"name": text, "port": number, "protocol": text}))}))),
		"grants":     described("namespace → specs of the ReferenceGrants in it", table(array(object(Schema{"from": array(object(Schema{"group": text, "kind": text, "namespace": text})), "to": array(object(Schema{"group": text, "kind": text, "name": text}))})))),
		"counts":     described(`tenant ("" for none) → kind → number of objects`, table(table(number))),
		"ranks":      described(`"Kind/namespace/name" → place by age among the tenant's objects of the kind, from 1`, table(number)),
		"namespaces": described("name → labels and tenant", table(object(Schema{"labels": strMap, "tenant": text}))),
		"tenants":    described("name → the Tenant", table(object(Schema{"owner": text, "namespaces": array(text), "hosts": array(text), "limits": table(number)}))),
	})
})

// MergeInput returns the schema of the input of merge rules.
var MergeInput = sync.OnceValue(func() Schema {
	return object(Schema{
		"kind":       described("kind of the claims: Host, Listener, Mapping, AuthService, RateLimitService, LogService, TracingService, Module, or Defaults: the platform's Module against a tenant's Mapping", text),
		"claim":      described("what is claimed, for example a host name", text),
		"claims":     described("the competing objects, in no order that means anything", array(object(Schema{"object": Schema{}, "id": text, "tenant": text, "created": text, "age": described("place by age, 0 for the oldest", number)}))),
		"parameters": Schema{},
	})
})

// All returns every published schema by name.
func All() map[string]Schema {
	return map[string]Schema{"input": Input(nil, nil), "index": Index(), "merge": MergeInput()}
}
