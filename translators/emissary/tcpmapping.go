package emissary

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// tcpMapping makes one branch of a TCP route, and the listener that it needs where nobody else makes it.
func (l *lowering) tcpMapping(spec *api.TCPMappingSpec) {
	if spec.Port < 1 || spec.Port > 65535 {
		l.fail(codeTCPValue, "spec.port", fmt.Sprintf("%d is no port", spec.Port), "1 to 65535")
	}
	address := cmp.Or(spec.Address, l.f.options.BindAddress)
	if _, err := netip.ParseAddr(address); err != nil {
		l.fail(codeTCPValue, "spec.address", "\""+address+"\" is no IP address", "such as 0.0.0.0")
	}
	sni := strings.ToLower(spec.Host)
	if sni == "*" {
		sni = ""
	}
	if sni != "" {
		if err := checkGlob(sni); err != nil || partialGlob(sni) {
			l.fail(codeTCPValue, "spec.host", "\""+spec.Host+"\" is no server name", "an exact name or \"*.example.com\"")
		}
	}
	f := &ir.TCPRouteFragment{
		Origin: l.o, Address: address, Port: uint32(spec.Port), SNI: sni,
		Weight: l.weight(codeTCPValue, spec.Weight), IdleTimeoutMillis: l.idleTimeout(spec.IdleTimeoutMs),
	}
	c, _, _ := l.cluster(upstream{
		service: spec.Service, resolver: spec.Resolver, tls: spec.TLS, tag: spec.ClusterTag, statsName: spec.StatsName,
		ipv4: spec.EnableIPv4, ipv6: spec.EnableIPv6, breakers: spec.CircuitBreakers,
	})
	if sni != "" && !l.failed {
		f.TLS = l.serverTLS(sni)
	}
	if l.failed {
		l.out.Clusters, l.out.Secrets, l.out.EndpointSets = nil, nil, nil
		return
	}
	f.Cluster = c.Name
	l.out.TCPRoutes = append(l.out.TCPRoutes, f)
	l.out.Listeners = append(l.out.Listeners, l.tcpListener(address, spec.Port))
}

func (l *lowering) idleTimeout(text string) *int64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxMillis {
		l.fail(codeTCPValue, "spec.idle_timeout_ms", "\""+text+"\" is no time span", "a number of milliseconds as text, \"0\" for none")
		return nil
	}
	return &n
}

// serverTLS returns the TLS settings of the TLSContext that lists the server name, or nil where a Host with TLS covers
// the name (the linker takes that Host's) or none does.
func (l *lowering) serverTLS(sni string) *ir.DownstreamTLS {
	for o := range l.v.List(api.KindHost) {
		if h, ok := o.Spec.(*api.HostSpec); ok && l.f.Owns(o) && wantsTLS(h) && covers(h.Hostname, sni) {
			return nil
		}
	}
	for o := range l.v.List(api.KindTLSContext) {
		s, ok := o.Spec.(*api.TLSContextSpec)
		if !ok || !l.f.Owns(o) {
			continue
		}
		for _, name := range s.Hosts {
			if !strings.EqualFold(name, sni) {
				continue
			}
			t := l.contextSettings(o, s)
			tls, err := l.downstream("spec.host", &t, "", nil)
			if err != nil {
				l.fail(err.code, "spec.host", "TLSContext "+o.Namespace+"/"+o.Name+" cannot be used: "+err.text, "")
				return nil
			}
			return tls
		}
	}
	return nil
}

func wantsTLS(h *api.HostSpec) bool {
	return h.TLSSecret != nil && h.TLSSecret.Name != "" || h.TLSContext != nil && h.TLSContext.Name != "" || h.TLS != nil
}

// covers reports whether the Host's name, without port, takes the server name.
func covers(hostname, sni string) bool {
	name, _, err := splitDomain(cmp.Or(hostname, "*"))
	switch {
	case err != nil:
		return false
	case name == "*" || name == sni:
		return true
	case name[0] == '*':
		return len(sni) > len(name)-1 && strings.HasSuffix(sni, name[1:])
	}
	return false
}

// tcpListener is the listener that the TCPMappings of one address and port need; equal for all of them. It reads TLS as
// soon as one of them has a server name.
func (l *lowering) tcpListener(address string, port int64) *ir.ListenerFragment {
	tls := false
	for o := range l.v.List(api.KindTCPMapping) {
		s, ok := o.Spec.(*api.TCPMappingSpec)
		if ok && l.f.Owns(o) && s.Port == port && cmp.Or(s.Address, l.f.options.BindAddress) == address && s.Host != "" && s.Host != "*" {
			tls = true
			break
		}
	}
	prefix := "ingress_tcp_"
	if tls {
		prefix = "ingress_tls_"
	}
	number := strconv.FormatInt(port, 10)
	return &ir.ListenerFragment{
		Origin: l.o, Name: "listener-" + address + "-" + number, Address: address, Port: uint32(port), TLS: tls,
		Security: ir.SecuritySecure, BufferLimit: l.set.bufferLimit, TCPStatPrefix: prefix + number, TCPAccessLogs: l.tcpAccessLogs(), Synthesized: true,
	}
}
