package validator

import (
	"maps"
	"slices"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// chunk is how many units go into one response at first. When it is refused, each goes alone.
const chunk = 32

// Field numbers that are spliced: in protobuf, encodings of fields concatenate, and of a scalar field the last one stands.
const (
	fieldName         protowire.Number = 1  // of every named resource
	fieldVirtualHosts protowire.Number = 2  // RouteConfiguration.virtual_hosts
	fieldRoutes       protowire.Number = 3  // VirtualHost.routes
	fieldChains       protowire.Number = 3  // Listener.filter_chains
	fieldMatch        protowire.Number = 1  // FilterChain.filter_chain_match
	fieldServerNames  protowire.Number = 11 // FilterChainMatch.server_names
	fieldBindToPort   protowire.Number = 26 // Listener.bind_to_port
)

// candidate is one form under judgement, and the units that have it.
type candidate struct {
	unit *ir.Unit // the first
	// twins are the others, keys those of the content of all, key that of the form.
	twins []*ir.Unit
	keys  []key
	key   key
	// settled: there is a verdict.
	settled bool
	inspection
}

// value is what Envoy is shown.
func (c *candidate) value() []byte {
	if c.shown != nil {
		return c.shown
	}
	return c.unit.Value
}

// probe is one response and the answer to it.
type probe struct {
	candidates []*candidate
	nonce      string
	// answered is closed when Envoy has answered; refusal is then its text, "" when it took the response.
	answered chan struct{}
	refusal  string
	budget   time.Duration
}

// budget is the time for one response's verdict.
func (o *Options) budget(units int) time.Duration {
	return o.Deadline + time.Duration(units)*o.DeadlinePerUnit
}

// chunked splits the candidates, which are of one kind, into those of one response each.
func chunked(cs []*candidate) [][]*candidate {
	size := chunk
	switch cs[0].unit.Kind {
	case ir.UnitSecret, ir.UnitListener, ir.UnitExtension, ir.UnitRouteConfig, ir.UnitEndpoints:
		size = 1 // each has the probe name for itself
	}
	var out [][]*candidate
	for begin := 0; begin < len(cs); {
		end := begin + 1
		for end < len(cs) && end-begin < size && string(cs[end].unit.Frame) == string(cs[begin].unit.Frame) {
			end++
		}
		out = append(out, cs[begin:end])
		begin = end
	}
	return out
}

func named(value []byte, name string) []byte {
	b := append(make([]byte, 0, len(value)+len(name)+4), value...)
	return protowire.AppendString(protowire.AppendTag(b, fieldName, protowire.BytesType), name)
}

func framed(b []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
}

func resource(url, name string, value []byte) *discovery.Resource {
	return &discovery.Resource{Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: url, Value: value}}
}

// responses returns what is sent for the candidates: the response whose answer is the verdict, and what follows it. serial
// makes content unique, for Envoy does not look twice at what it has. The child keeps what has to be withdrawn.
func (c *child) responses(cs []*candidate, serial uint64) (verdict, after *discovery.DeltaDiscoveryResponse) {
	unit := cs[0].unit
	one := func(url, name string, value []byte) *discovery.DeltaDiscoveryResponse {
		return &discovery.DeltaDiscoveryResponse{TypeUrl: url, Resources: []*discovery.Resource{resource(url, name, value)}}
	}
	switch unit.Kind {
	case ir.UnitRoute, ir.UnitHost, ir.UnitRouteConfig:
		return one(ir.TypeRouteConfig, probeRoutes, routeConfig(cs, serial)), nil
	case ir.UnitExtension:
		return one(ir.TypeExtension, probeExtension, named(cs[0].value(), probeExtension)),
			one(ir.TypeExtension, probeExtension, named(c.good.extension, probeExtension))
	case ir.UnitEndpoints:
		return one(ir.TypeEndpoint, probeEndpoints, named(cs[0].value(), probeEndpoints)),
			&discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeEndpoint, Resources: []*discovery.Resource{emptyEndpoints(probeEndpoints)}}
	case ir.UnitSecret:
		// Envoy keeps a secret that it refused, so a good one follows at once.
		name, good := probeCertificate, c.good.certificate
		if isAnchors(unit) {
			name, good = probeAnchors, c.good.anchors
		}
		return one(ir.TypeSecret, name, named(cs[0].value(), name)), one(ir.TypeSecret, name, named(good, name))
	case ir.UnitCluster:
		r := &discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeCluster, RemovedResources: c.clusters}
		c.clusters = make([]string, len(cs))
		for i, x := range cs {
			// A name of its own each time: for a cluster that changes, Envoy waits.
			c.clusters[i] = probeCluster + strconv.FormatUint(serial, 10) + "-" + strconv.Itoa(i)
			r.Resources = append(r.Resources, resource(ir.TypeCluster, c.clusters[i], named(c.cluster(x.value()), c.clusters[i])))
		}
		return r, nil
	default: // listeners and chains
		name := probeListener + strconv.FormatUint(serial, 10)
		r := one(ir.TypeListener, name, named(c.listener(cs), name))
		if c.listening != "" {
			r.RemovedResources = []string{c.listening} // it may have the address
		}
		c.listening = name
		return r, nil
	}
}

// standFor returns clusters without endpoints for the names that candidates want to be there and that are not; nil for none.
func (c *child) standFor(cs []*candidate) *discovery.DeltaDiscoveryResponse {
	var r *discovery.DeltaDiscoveryResponse
	for _, x := range cs {
		if !naming(x.unit.Kind) {
			return nil
		}
		for _, name := range x.clusters {
			if name == "" || name == adsCluster || name == probeEndpoints || c.standIns[name] {
				continue
			}
			if r == nil {
				r = &discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeCluster}
			}
			if c.standIns == nil {
				c.standIns = map[string]bool{}
			}
			c.standIns[name] = true
			m := &clusterv3.Cluster{Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}}
			r.Resources = append(r.Resources, resource(ir.TypeCluster, name, encoded(m)))
		}
	}
	return r
}

// withdrawals remove what the last probes left, so that verdicts do not depend on each other.
func (c *child) withdrawals() []*discovery.DeltaDiscoveryResponse {
	var out []*discovery.DeltaDiscoveryResponse
	if c.listening != "" {
		out = append(out, &discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeListener, RemovedResources: []string{c.listening}})
	}
	if gone := slices.AppendSeq(c.clusters, maps.Keys(c.standIns)); len(gone) > 0 { // after the listener that names them
		out = append(out, &discovery.DeltaDiscoveryResponse{TypeUrl: ir.TypeCluster, RemovedResources: gone})
	}
	c.clusters, c.standIns, c.listening = nil, nil, ""
	return out
}

// routeConfig puts routes into one virtual host, hosts side by side. References to clusters are the compiler's own proof: with
// validate_clusters every cluster would have to stay loaded.
func routeConfig(cs []*candidate, serial uint64) []byte {
	b := encoded(&routev3.RouteConfiguration{Name: probeRoutes, ValidateClusters: wrapperspb.Bool(false)})
	unique := "probe " + strconv.FormatUint(serial, 10)
	if kind := cs[0].unit.Kind; kind != ir.UnitRoute {
		for _, x := range cs {
			if kind == ir.UnitHost {
				b = framed(b, fieldVirtualHosts, x.value())
			} else {
				b = append(b, x.value()...) // one alone
			}
		}
		return framed(b, fieldVirtualHosts, encoded(&routev3.VirtualHost{Name: unique, Domains: []string{"probe.invalid." + strconv.FormatUint(serial, 10)}}))
	}
	host := encoded(&routev3.VirtualHost{Name: unique, Domains: []string{"*"}})
	for _, x := range cs {
		host = framed(host, fieldRoutes, x.value())
	}
	return framed(b, fieldVirtualHosts, host)
}

// isAnchors tells trust anchors from a certificate with its key by what stands in the secret.
func isAnchors(u *ir.Unit) bool {
	for b := u.Value; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		if number == 4 { // Secret.validation_context
			return true
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			return false
		}
		b = b[n+m:]
	}
	return false
}

// listener returns the listener of chains, or a listener's head with a chain that Envoy takes.
func (c *child) listener(cs []*candidate) []byte {
	var b []byte
	if u := cs[0].unit; u.Kind == ir.UnitListener {
		b = framed(append(b, cs[0].value()...), fieldChains, c.good.chain)
	} else {
		b = append(b, u.Frame...)
		for i, x := range cs {
			value := x.value()
			if x.nameless {
				match := protowire.AppendString(protowire.AppendTag(nil, fieldServerNames, protowire.BytesType), "chain-"+strconv.Itoa(i)+".probe.invalid")
				value = framed(append(make([]byte, 0, len(value)+len(match)+4), value...), fieldMatch, match)
			}
			b = framed(b, fieldChains, value)
		}
	}
	if !c.confined {
		b = framed(b, fieldBindToPort, nil) // BoolValue false
	}
	return b
}

// cluster returns the cluster as it is; without a network of its own the child must not send health checks to backends.
func (c *child) cluster(value []byte) []byte {
	if c.confined {
		return value
	}
	var m clusterv3.Cluster
	if proto.Unmarshal(value, &m) != nil || len(m.HealthChecks) == 0 {
		return value
	}
	m.HealthChecks = nil
	return encoded(&m)
}

func emptyEndpoints(name string) *discovery.Resource {
	return resource(ir.TypeEndpoint, name, encoded(&endpointv3.ClusterLoadAssignment{ClusterName: name}))
}
