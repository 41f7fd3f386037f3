package linker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// attachTCP makes the chains of the TCP routes of the listener's address and port. It reports whether one of them takes
// every connection, and which server names they have taken.
func (l *Linker) attachTCP(t *topology, lf *ir.ListenerFragment, out *ir.Listener, hosts []*ir.HostFragment, tcp []*ir.TCPRouteFragment) (takesAll bool, names map[string]bool) {
	names = map[string]bool{}
	groups := map[string][]*ir.TCPRouteFragment{}
	for _, f := range tcp {
		if f.Section == "" && f.Port == lf.Port && (f.Address == "" || f.Address == lf.Address) {
			groups[f.SNI] = append(groups[f.SNI], f)
		}
	}
	for sni, group := range groups {
		tls := group[0].TLS
		if sni != "" {
			if h := tlsHost(hosts, sni); h != nil {
				tls = h.TLS
			}
			if tls == nil {
				for _, f := range group {
					if f.Origin != nil {
						t.findings = append(t.findings, f.Origin.About(snapshot.Error, codeNoTLSForTCP, "spec.host",
							fmt.Sprintf("no Host on listener %s and no TLSContext has a certificate for %q", lf.Name, sni),
							"create a Host with a tlsSecret that the Listener takes, or a TLSContext with that name in its hosts"))
					}
				}
				continue
			}
		}
		chain := &ir.FilterChain{Name: "tcp", TLS: tls, Origins: slices.Clone(out.Origins)}
		if sni != "" {
			chain.Name = "tcp/" + sni
			chain.Match = ir.ChainMatch{ServerNames: serverNames(sni), Transport: "tls"}
			out.TLSInspector = true
			names[sni] = true
		} else {
			takesAll = true
		}
		slices.SortStableFunc(group, func(a, b *ir.TCPRouteFragment) int {
			return cmp.Or(btoi(a.Weight == nil)-btoi(b.Weight == nil), compareOrigins(a.Origin, b.Origin))
		})
		chain.TCP = l.tcpChain(t, lf, group)
		for _, f := range group {
			if f.Origin != nil {
				chain.Origins = append(chain.Origins, f.Origin.Ref)
			}
		}
		for _, f := range group {
			t.proxied[f] = chain.TCP != nil
		}
		if chain.TCP != nil {
			out.Chains = append(out.Chains, chain)
		}
	}
	return takesAll, names
}

func compareOrigins(a, b *snapshot.Object) int {
	if a == nil || b == nil {
		return btoi(a != nil) - btoi(b != nil)
	}
	return a.Ref.Compare(b.Ref)
}

// tlsHost finds the attached host with TLS whose name covers the server name, the most specific one.
func tlsHost(hosts []*ir.HostFragment, sni string) *ir.HostFragment {
	var best *ir.HostFragment
	for _, h := range hosts {
		if h.TLS == nil || h.Closed != "" || !covers(h.SNI, sni) {
			continue
		}
		if best == nil || len(strings.TrimSuffix(h.SNI, "*")) > len(strings.TrimSuffix(best.SNI, "*")) {
			best = h
		}
	}
	return best
}

func (l *Linker) tcpChain(t *topology, lf *ir.ListenerFragment, group []*ir.TCPRouteFragment) *ir.TCPChain {
	chain := &ir.TCPChain{StatPrefix: lf.TCPStatPrefix, IdleTimeoutMillis: group[0].IdleTimeoutMillis, AccessLogs: lf.TCPAccessLogs}
	weights := make([]*ir.RouteFragment, len(group))
	for i, f := range group {
		weights[i] = &ir.RouteFragment{Weight: f.Weight}
	}
	shares, _, why := share(weights)
	for i, f := range group {
		if why != nil && f.Weight != nil && f.Origin != nil {
			t.findings = append(t.findings, f.Origin.About(snapshot.Warning, why.code, "spec.weight", why.message, why.help))
		}
		if shares[i] > 0 {
			chain.Clusters = append(chain.Clusters, ir.WeightedCluster{Cluster: f.Cluster, Weight: uint32(shares[i])})
		}
	}
	if len(chain.Clusters) == 0 {
		return nil
	}
	return chain
}
