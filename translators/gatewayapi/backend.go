package gatewayapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// protocol is what a route speaks to its backends.
type protocol uint8

const (
	speaksHTTP protocol = iota
	speaksGRPC
	speaksTCP
	speaksTLS // the client itself, through to the backend
)

// Protocols that a Service's port can name (Kubernetes documentation, "Application protocol"; Gateway API, GEP-1911).
const (
	appH2C = "kubernetes.io/h2c"
	appWS  = "kubernetes.io/ws"
	appWSS = "kubernetes.io/wss"
)

// backend returns the cluster of a backend, "" for one that cannot be used: requests for it are answered 500.
func (l *lowering) backend(g *snapshot.Object, path string, ref *gw.BackendObjectReference, speaks protocol) string {
	refuse := func(reason gw.RouteConditionReason, message, help string) string {
		l.resolved.object(string(reason), message)
		severity := snapshot.Error
		if reason == gw.RouteReasonBackendNotFound {
			severity = snapshot.Warning // it may yet come
		}
		l.report(severity, codeBackend, path, message, help)
		return ""
	}
	kind := snapshot.GroupKind{Group: string(value(ref.Group, "")), Kind: string(value(ref.Kind, "Service"))}
	if kind != snapshot.KindService {
		return refuse(gw.RouteReasonInvalidKind, fmt.Sprintf("backends of kind %s are not supported", kind), "name a Service")
	}
	to := snapshot.Ref{Kind: "Service", Namespace: string(value(ref.Namespace, gw.Namespace(l.o.Namespace))), Name: string(ref.Name)}
	if !granted(l.v, l.o, to) {
		return refuse(gw.RouteReasonRefNotPermitted, fmt.Sprintf("no ReferenceGrant in namespace %s lets %ss of namespace %s name Service %s", to.Namespace, l.o.Kind, l.o.Namespace, to.Name), wantedGrant(l.o, to))
	}
	o := l.v.Get(snapshot.KindService, to.Namespace, to.Name)
	if o == nil {
		return refuse(gw.RouteReasonBackendNotFound, fmt.Sprintf("there is no Service %s/%s", to.Namespace, to.Name), "create it, or correct name and namespace; requests to it fail until then")
	}
	s, ok := o.Spec.(*snapshot.Service)
	if !ok {
		return refuse(gw.RouteReasonBackendNotFound, fmt.Sprintf("Service %s/%s cannot be read", to.Namespace, to.Name), "correct the Service")
	}
	if s.Type == "ExternalName" {
		return refuse(gw.RouteReasonInvalidKind, fmt.Sprintf("Service %s/%s stands for a name outside the cluster, to which routes do not lead", to.Namespace, to.Name), "name a Service with endpoints")
	}
	if ref.Port == nil {
		return refuse(gw.RouteReasonBackendNotFound, "the port of the Service is missing", "it has "+portsOf(s))
	}
	i := slices.IndexFunc(s.Ports, func(p snapshot.ServicePort) bool {
		return p.Port == *ref.Port && (p.Protocol == "" || p.Protocol == "TCP")
	})
	if i < 0 {
		if slices.ContainsFunc(s.Ports, func(p snapshot.ServicePort) bool { return p.Port == *ref.Port }) {
			return refuse(gw.RouteReasonUnsupportedProtocol, fmt.Sprintf("port %d of Service %s/%s is not for TCP", *ref.Port, to.Namespace, to.Name), "it has "+portsOf(s))
		}
		return refuse(gw.RouteReasonBackendNotFound, fmt.Sprintf("Service %s/%s has no port %d", to.Namespace, to.Name, *ref.Port), "it has "+portsOf(s)+"; requests to it fail")
	}
	port := &s.Ports[i]
	if port.AppProtocol == appH2C && (speaks == speaksTCP || speaks == speaksTLS) || port.AppProtocol == appWSS && speaks == speaksGRPC || port.AppProtocol == appWS && speaks == speaksGRPC {
		return refuse(gw.RouteReasonUnsupportedProtocol, fmt.Sprintf("port %d of Service %s/%s speaks %s", *ref.Port, to.Namespace, to.Name, port.AppProtocol), "name another port, or correct the Service's appProtocol")
	}
	var tls *ir.UpstreamTLS
	if speaks != speaksTLS { // in which a second TLS would be wrapped
		var closed bool
		if tls, closed = l.backendTLS(g, path, o, port); closed {
			return ""
		}
	}
	return l.cluster(to, port, tls, speaks == speaksGRPC || speaks == speaksHTTP && port.AppProtocol == appH2C)
}

// portsOf lists the ports of a Service as a backendRef names them: a targetPort is none.
func portsOf(s *snapshot.Service) string {
	if len(s.Ports) == 0 {
		return "no ports"
	}
	var out []string
	for _, p := range s.Ports {
		text := strconv.Itoa(int(p.Port))
		if p.Protocol != "" && p.Protocol != "TCP" {
			text += "/" + p.Protocol
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// cluster adds the cluster of a Service's port and returns its name.
func (l *lowering) cluster(to snapshot.Ref, port *snapshot.ServicePort, tls *ir.UpstreamTLS, http2 bool) string {
	number := strconv.Itoa(int(port.Port))
	c := &ir.Cluster{
		StatName: mangled(to.Name + "_" + to.Namespace + "_" + number), Discovery: ir.DiscoveryEDS, EndpointSet: "k8s/" + to.Namespace + "/" + to.Name + "/" + number,
		Service: to.Name, Namespace: to.Namespace, ConnectTimeoutMillis: emissary.DefaultConnectTimeout, LoadBalancer: "round_robin", HTTP2: http2, TLS: tls, Origins: l.refs,
	}
	c.Name = emissary.ClusterName(c)
	if !slices.ContainsFunc(l.out.Clusters, func(o *ir.Cluster) bool { return o.Name == c.Name }) {
		l.out.Clusters = append(l.out.Clusters, c)
	}
	request := ir.EndpointRequest{Name: c.EndpointSet, Namespace: to.Namespace, Service: to.Name, Port: uint32(port.Port)}
	if !slices.Contains(l.out.EndpointSets, request) {
		l.out.EndpointSets = append(l.out.EndpointSets, request)
	}
	return c.Name
}

// nowhere adds the cluster without endpoints, which closes the connections that it is given, and returns its name.
func (l *lowering) nowhere() string {
	const set = "gateway/nowhere"
	c := &ir.Cluster{Discovery: ir.DiscoveryEDS, EndpointSet: set, ConnectTimeoutMillis: emissary.DefaultConnectTimeout, LoadBalancer: "round_robin", Origins: l.refs}
	c.Name = emissary.ClusterName(c)
	if !slices.ContainsFunc(l.out.Clusters, func(o *ir.Cluster) bool { return o.Name == c.Name }) {
		l.out.Clusters = append(l.out.Clusters, c)
		l.out.EndpointSets = append(l.out.EndpointSets, ir.EndpointRequest{Name: set})
	}
	return c.Name
}

func mangled(name string) string {
	out := []byte(name)
	for i, c := range out {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			out[i] = '_'
		}
	}
	return string(out)
}
