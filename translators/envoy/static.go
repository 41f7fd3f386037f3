package envoy

import (
	"fmt"
	"io"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/chancery-gateway/chancery/translators/envoy/wirejson"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Field numbers of what is spliced or replaced.
const (
	fieldStaticResources protowire.Number = 2  // Bootstrap.static_resources
	fieldListeners       protowire.Number = 1  // StaticResources.listeners
	fieldClusters        protowire.Number = 2  // StaticResources.clusters
	fieldSecrets         protowire.Number = 3  // StaticResources.secrets
	fieldRDS             protowire.Number = 3  // HttpConnectionManager.rds
	fieldSDSConfig       protowire.Number = 2  // SdsSecretConfig.sds_config
	fieldRouteConfig     protowire.Number = 4  // HttpConnectionManager.route_config
	fieldClusterType     protowire.Number = 2  // Cluster.type
	fieldEDSConfig       protowire.Number = 3  // Cluster.eds_cluster_config
	fieldLoadAssignment  protowire.Number = 33 // Cluster.load_assignment
)

// WriteStatic writes static.json: one complete Bootstrap with everything of the set inlined, so that Envoy runs it without a
// control plane: route configurations in their listeners, endpoints in their clusters, certificates among the static
// secrets, where listeners and clusters name them. It is protobuf JSON, indented by two blanks. It fails when the set refers to
// something that it does not hold, and as w fails.
func WriteStatic(w io.Writer, b *ir.Bootstrap, set ir.ResourceSet) error {
	base, err := baseBootstrap(b, BootstrapOptions{})
	if err != nil {
		return err
	}
	resources, err := deterministic.Marshal(base.StaticResources)
	if err != nil {
		return err
	}
	base.StaticResources = nil
	wire, err := deterministic.Marshal(base)
	if err != nil {
		return err
	}
	var pieces [fieldSecrets + 1][][]byte // by field of StaticResources
	for _, r := range set[ir.TypeListener] {
		pieces[fieldListeners] = append(pieces[fieldListeners], r.Value)
	}
	for _, r := range set[ir.TypeCluster] {
		c, err := staticCluster(r, set)
		if err != nil {
			return fmt.Errorf("cluster %q: %w", r.Name, err)
		}
		pieces[fieldClusters] = append(pieces[fieldClusters], c)
	}
	for _, r := range set[ir.TypeSecret] {
		pieces[fieldSecrets] = append(pieces[fieldSecrets], r.Value)
	}
	size := len(resources)
	for number, list := range pieces {
		for _, p := range list {
			size += protowire.SizeTag(protowire.Number(number)) + protowire.SizeBytes(len(p))
		}
	}
	wire = slices.Grow(wire, size+frame)
	wire = protowire.AppendVarint(protowire.AppendTag(wire, fieldStaticResources, protowire.BytesType), uint64(size))
	wire = append(wire, resources...)
	for number, list := range pieces {
		for _, p := range list {
			wire = appendFramed(wire, protowire.Number(number), p)
		}
	}
	return writeMessage(w, (&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor(), wire,
		wirejson.Rewrite{Of: (&hcmv3.HttpConnectionManager{}).ProtoReflect().Descriptor(), To: func(wire []byte) ([]byte, error) { return inlineRoutes(wire, set) }},
		wirejson.Rewrite{Of: (&tlsv3.SdsSecretConfig{}).ProtoReflect().Descriptor(), To: func(wire []byte) ([]byte, error) { return without(wire, 0, fieldSDSConfig) }})
}

// frame is the size that a field's tag and length may have.
const frame = 8

// find returns the named resource of a sorted list, or nil.
func find(list []*ir.Resource, name string) *ir.Resource {
	i, found := slices.BinarySearchFunc(list, name, func(r *ir.Resource, n string) int { return strings.Compare(r.Name, n) })
	if !found {
		return nil
	}
	return list[i]
}

// inlineRoutes puts the route configuration in place of its name in a connection manager.
func inlineRoutes(wire []byte, set ir.ResourceSet) ([]byte, error) {
	rds := &hcmv3.Rds{}
	found := false
	for rest := wire; len(rest) > 0; {
		number, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, typ, rest[n:])
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		if number == fieldRDS && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(rest[n:])
			if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(value, rds); err != nil {
				return nil, err
			}
			found = true
		}
		rest = rest[n+size:]
	}
	if !found {
		return wire, nil
	}
	routes := find(set[ir.TypeRouteConfig], rds.RouteConfigName)
	if routes == nil {
		return nil, fmt.Errorf("there is no route configuration %q", rds.RouteConfigName)
	}
	wire, err := without(wire, len(routes.Value)+frame, fieldRDS)
	return appendFramed(wire, fieldRouteConfig, routes.Value), err
}

// staticCluster puts a cluster's endpoints into it.
func staticCluster(r *ir.Resource, set ir.ResourceSet) ([]byte, error) {
	if r.EndpointSet == "" {
		return r.Value, nil
	}
	endpoints := find(set[ir.TypeEndpoint], r.EndpointSet)
	if endpoints == nil {
		return nil, fmt.Errorf("there is no endpoint set %q", r.EndpointSet)
	}
	value, err := without(r.Value, len(endpoints.Value)+2*frame, fieldClusterType, fieldEDSConfig)
	if err != nil {
		return nil, err
	}
	value = protowire.AppendVarint(protowire.AppendTag(value, fieldClusterType, protowire.VarintType), uint64(clusterv3.Cluster_STATIC))
	return appendFramed(value, fieldLoadAssignment, endpoints.Value), nil
}

// without returns a copy of an encoding without some of its fields, with room for more bytes behind it.
func without(wire []byte, more int, numbers ...protowire.Number) ([]byte, error) {
	out := make([]byte, 0, len(wire)+more)
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
