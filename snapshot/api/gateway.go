package api

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// Kinds of Gateway API. The Spec of their objects is a pointer to the spec of sigs.k8s.io/gateway-api/apis/v1, whatever the
// version: the fields of the older ones that are read are the same.
var (
	KindGatewayClass     = snapshot.GroupKind{Group: groupGateway, Kind: "GatewayClass"}
	KindGateway          = snapshot.GroupKind{Group: groupGateway, Kind: "Gateway"}
	KindListenerSet      = snapshot.GroupKind{Group: groupGateway, Kind: "ListenerSet"}
	KindHTTPRoute        = snapshot.GroupKind{Group: groupGateway, Kind: "HTTPRoute"}
	KindGRPCRoute        = snapshot.GroupKind{Group: groupGateway, Kind: "GRPCRoute"}
	KindTLSRoute         = snapshot.GroupKind{Group: groupGateway, Kind: "TLSRoute"}
	KindTCPRoute         = snapshot.GroupKind{Group: groupGateway, Kind: "TCPRoute"}
	KindUDPRoute         = snapshot.GroupKind{Group: groupGateway, Kind: "UDPRoute"}
	KindReferenceGrant   = snapshot.GroupKind{Group: groupGateway, Kind: "ReferenceGrant"}
	KindBackendTLSPolicy = snapshot.GroupKind{Group: groupGateway, Kind: "BackendTLSPolicy"}
)

// decodeSpec decodes the spec. What else the values must be is the front end's to say.
func decodeSpec[T any](r *reader) any {
	spec := new(T)
	text := r.body.Delete("spec")
	for _, m := range r.body {
		r.unknownField(m.Name, m.Name, documentFields)
	}
	r.body = nil
	if text == nil || text.Kind() == 'n' {
		text = jsontext.Value("{}")
	}
	text, ok := r.decodeStrictly(text, "spec", spec)
	if !ok {
		return nil
	}
	r.body = jsonobject.Object{{Name: "spec", Value: text}}
	return spec
}
