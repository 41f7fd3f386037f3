package gatewayapi

import (
	"fmt"
	"math"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// tlsRoute makes the chains of a TLSRoute: one for each server name.
func (l *lowering) tlsRoute(spec *gw.TLSRouteSpec) bool {
	rules := make([][]gw.BackendRef, len(spec.Rules))
	for i, r := range spec.Rules {
		rules[i] = r.BackendRefs
	}
	return l.streams(spec.ParentRefs, spec.Hostnames, rules)
}

// tcpRoute makes the chain of a TCPRoute.
func (l *lowering) tcpRoute(spec *gw.TCPRouteSpec) bool {
	rules := make([][]gw.BackendRef, len(spec.Rules))
	for i, r := range spec.Rules {
		rules[i] = r.BackendRefs
	}
	return l.streams(spec.ParentRefs, nil, rules)
}

// udpRoute says that UDP is not served.
func (l *lowering) udpRoute(spec *gw.UDPRouteSpec) bool {
	if _, ours := l.parents(spec.ParentRefs, nil); !ours {
		return false
	}
	l.conclude(len(spec.Rules))
	return true
}

// streams makes the routes of connections. All of a connection goes one way, so the first rule has them all.
func (l *lowering) streams(parents []gw.ParentReference, hostnames []gw.Hostname, rules [][]gw.BackendRef) bool {
	at, ours := l.parents(parents, hostnames)
	if !ours {
		return false
	}
	for i := 1; i < len(rules); i++ {
		l.warn(codeUnsupported, fmt.Sprintf("spec.rules[%d]", i), "without effect: the first rule takes every connection", "keep one rule")
	}
	for _, a := range at {
		speaks := speaksTCP
		if a.spec.Protocol == gw.TLSProtocolType && a.spec.TLS != nil && value(a.spec.TLS.Mode, gw.TLSModeTerminate) == gw.TLSModePassthrough {
			speaks = speaksTLS
		}
		clusters := l.shares(a.gateway, rules, speaks)
		for _, name := range a.names {
			f := &ir.TCPRouteFragment{Origin: l.o, Section: a.section(), Order: orderKey(name, &rank{}, l.o), Clusters: clusters}
			if a.spec.Protocol == gw.TLSProtocolType {
				f.SNI = name
			}
			l.out.TCPRoutes = append(l.out.TCPRoutes, f)
		}
	}
	l.conclude(len(rules))
	return true
}

// shares are the targets of the first rule. The share of those that cannot be used is closed.
func (l *lowering) shares(g *snapshot.Object, rules [][]gw.BackendRef, speaks protocol) []ir.WeightedCluster {
	var out []ir.WeightedCluster
	lost := uint64(0)
	if len(rules) > 0 {
		for i := range rules[0] {
			at := fmt.Sprintf("spec.rules[0].backendRefs[%d]", i)
			b := &rules[0][i]
			weight := value(b.Weight, 1)
			cluster := l.backend(g, at, &b.BackendObjectReference, speaks)
			if weight < 0 || weight > 1_000_000 {
				l.fail(codeValue, at+".weight", fmt.Sprintf("%d is no weight; the backend gets no connections", weight), "0 to 1000000")
				continue
			}
			if cluster == "" {
				lost += uint64(weight)
			} else if weight > 0 {
				out = append(out, ir.WeightedCluster{Cluster: cluster, Weight: uint32(weight)})
			}
		}
	}
	if lost > 0 || len(out) == 0 {
		out = append(out, ir.WeightedCluster{Cluster: l.nowhere(), Weight: uint32(min(max(lost, 1), math.MaxUint32))})
	}
	return out
}
