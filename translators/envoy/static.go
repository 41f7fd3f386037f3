package envoy

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Field numbers of what is spliced or replaced.
const (
	fieldStaticResources protowire.Number = 2  // Bootstrap.static_resources
	fieldListeners       protowire.Number = 1  // StaticResources.listeners
	fieldClusters        protowire.Number = 2  // StaticResources.clusters
	fieldSecrets         protowire.Number = 3  // StaticResources.secrets
	fieldRouteConfig     protowire.Number = 4  // HttpConnectionManager.route_config
	fieldClusterType     protowire.Number = 2  // Cluster.type
	fieldEDSConfig       protowire.Number = 3  // Cluster.eds_cluster_config
	fieldLoadAssignment  protowire.Number = 33 // Cluster.load_assignment
)

// Static returns the wire encoding of one complete Bootstrap with everything of the set inlined, so that Envoy runs it without a
// control plane: route configurations in their listeners, endpoints in their clusters, certificates among the static
// secrets, where listeners and clusters name them. It fails when the set refers to something that it does not hold.
func Static(b *ir.Bootstrap, set ir.ResourceSet) ([]byte, error) {
	base, err := baseBootstrap(b, BootstrapOptions{})
	if err != nil {
		return nil, err
	}
	out, err := deterministic.Marshal(base)
	if err != nil {
		return nil, err
	}
	var resources []byte
	for _, r := range set[ir.TypeListener] {
		v, err := staticListener(r, set)
		if err != nil {
			return nil, fmt.Errorf("listener %q: %w", r.Name, err)
		}
		resources = appendFramed(resources, fieldListeners, v)
	}
	for _, r := range set[ir.TypeCluster] {
		v, err := staticCluster(r, set)
		if err != nil {
			return nil, fmt.Errorf("cluster %q: %w", r.Name, err)
		}
		resources = appendFramed(resources, fieldClusters, v)
	}
	for _, r := range set[ir.TypeSecret] {
		resources = appendFramed(resources, fieldSecrets, r.Value)
	}
	return appendFramed(out, fieldStaticResources, resources), nil // Protobuf merges it with the base's.
}

// WriteStatic writes static.json: Static as protobuf JSON, indented by two blanks.
func WriteStatic(w io.Writer, b *ir.Bootstrap, set ir.ResourceSet) error {
	wire, err := Static(b, set)
	if err != nil {
		return err
	}
	return writeMessage(w, (&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor(), wire)
}

// find returns the named resource of a sorted list, or nil.
func find(list []*ir.Resource, name string) *ir.Resource {
	i, found := slices.BinarySearchFunc(list, name, func(r *ir.Resource, n string) int { return strings.Compare(r.Name, n) })
	if !found {
		return nil
	}
	return list[i]
}

func staticListener(r *ir.Resource, set ir.ResourceSet) ([]byte, error) {
	l := &listenerv3.Listener{}
	if err := proto.Unmarshal(r.Value, l); err != nil {
		return nil, err
	}
	for _, c := range l.FilterChains {
		if err := staticSocket(c.TransportSocket); err != nil {
			return nil, err
		}
		for _, f := range c.Filters {
			if err := inlineRoutes(f.GetTypedConfig(), set); err != nil {
				return nil, err
			}
		}
	}
	return deterministic.Marshal(l)
}

// inlineRoutes puts the route configuration in place of its name. Its bytes are spliced, never decoded.
func inlineRoutes(a *anypb.Any, set ir.ResourceSet) error {
	m := &hcmv3.HttpConnectionManager{}
	if !a.MessageIs(m) {
		return nil
	}
	if err := a.UnmarshalTo(m); err != nil {
		return err
	}
	if m.GetRds() == nil {
		return nil
	}
	name := m.GetRds().GetRouteConfigName()
	routes := find(set[ir.TypeRouteConfig], name)
	if routes == nil {
		return fmt.Errorf("there is no route configuration %q", name)
	}
	m.RouteSpecifier = nil
	b, err := deterministic.Marshal(m)
	if err != nil {
		return err
	}
	a.Value = appendFramed(b, fieldRouteConfig, routes.Value)
	return nil
}

// staticSocket turns secrets over SDS into names of static secrets.
func staticSocket(s *corev3.TransportSocket) error {
	a := s.GetTypedConfig()
	if a == nil {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return err
	}
	var c *tlsv3.CommonTlsContext
	switch m := m.(type) {
	case *tlsv3.DownstreamTlsContext:
		c = m.CommonTlsContext
	case *tlsv3.UpstreamTlsContext:
		c = m.CommonTlsContext
	case *quicv3.QuicDownstreamTransport:
		c = m.GetDownstreamTlsContext().GetCommonTlsContext()
	}
	if c == nil {
		return nil
	}
	for _, s := range c.TlsCertificateSdsSecretConfigs {
		s.SdsConfig = nil
	}
	if s := c.GetValidationContextSdsSecretConfig(); s != nil {
		s.SdsConfig = nil
	}
	if s := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); s != nil {
		s.SdsConfig = nil
	}
	a.Value, err = deterministic.Marshal(m)
	return err
}

func staticCluster(r *ir.Resource, set ir.ResourceSet) ([]byte, error) {
	value := r.Value
	if r.EndpointSet != "" {
		endpoints := find(set[ir.TypeEndpoint], r.EndpointSet)
		if endpoints == nil {
			return nil, fmt.Errorf("there is no endpoint set %q", r.EndpointSet)
		}
		var err error
		if value, err = without(value, fieldClusterType, fieldEDSConfig); err != nil {
			return nil, err
		}
		value = protowire.AppendVarint(protowire.AppendTag(value, fieldClusterType, protowire.VarintType), uint64(clusterv3.Cluster_STATIC))
		value = appendFramed(value, fieldLoadAssignment, endpoints.Value)
	}
	if !bytes.Contains(value, []byte("envoy.transport_sockets.")) {
		return value, nil
	}
	c := &clusterv3.Cluster{}
	if err := proto.Unmarshal(value, c); err != nil {
		return nil, err
	}
	if err := staticSocket(c.TransportSocket); err != nil {
		return nil, err
	}
	return deterministic.Marshal(c)
}

// without returns a copy of an encoding without some of its fields.
func without(wire []byte, numbers ...protowire.Number) ([]byte, error) {
	out := make([]byte, 0, len(wire)+256)
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if !slices.Contains(numbers, number) {
			out = append(out, wire[:n]...)
		}
		wire = wire[n:]
	}
	return out, nil
}
