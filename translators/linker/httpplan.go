package linker

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// httpPlan plans the HTTP chains and route configurations of one listener.
type httpPlan struct {
	linker   *Linker
	topology *topology
	listener *ir.ListenerFragment
	out      *ir.Listener
	hosts    []*ir.HostFragment
	tcpNames map[string]bool // server names that TCP routes have taken
}

// misdirected answers an authority that does not belong to the connection's certificate (RFC 9110, 15.5.20).
var misdirected = &ir.Route{Name: "misdirected", Own: true, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Direct: &ir.DirectResponse{Status: 421}}

// closed answers for a host that must not be served.
var closed = &ir.Route{Name: "closed", Own: true, Match: ir.Match{PathKind: ir.PathPrefix, Path: "/"}, Direct: &ir.DirectResponse{Status: 503}}

// tlsIdentity is equal for hosts that may share connections: equal certificate and settings.
func tlsIdentity(t *ir.DownstreamTLS) string {
	return strings.Join(t.Certificates, "+") + tlsSettings(t)
}

// tlsSettings renders everything but the certificates; "" for defaults alone.
func tlsSettings(t *ir.DownstreamTLS) string {
	p := &t.Params
	if t.Validation == "" && !t.RequireClientCertificate && p.MinVersion == "" && p.MaxVersion == "" && p.CipherSuites == nil && p.Curves == nil && p.ALPN == nil {
		return ""
	}
	return fmt.Sprintf("\x00%q %t %q %q %q %q %q", t.Validation, t.RequireClientCertificate, p.MinVersion, p.MaxVersion, p.CipherSuites, p.Curves, p.ALPN)
}

// tlsConfigName names the route configuration of all hosts with one TLS identity: by the certificate, and a hash of the
// other settings where there are any.
func tlsConfigName(listener string, t *ir.DownstreamTLS) string {
	name := listener + "/tls/" + strings.Join(t.Certificates, "+")
	if settings := tlsSettings(t); settings != "" {
		h := fnv.New32a()
		h.Write([]byte(settings))
		name += fmt.Sprintf("/%08x", h.Sum32())
	}
	return name
}

// planTLS makes a chain for each server name, and one route configuration for all chains of one TLS identity.
func (p *httpPlan) planTLS() {
	if !p.listener.TLS {
		return
	}
	type chain struct {
		hosts []*ir.HostFragment
	}
	chains := map[string]*chain{}
	byConfig := map[string][]*ir.HostFragment{}
	for _, h := range p.hosts {
		if h.TLS == nil || h.Closed != "" {
			continue
		}
		if p.tcpNames[h.SNI] {
			continue
		}
		if strings.Contains(h.SNI, "*") && h.SNI != "*" && !strings.HasPrefix(h.SNI, "*.") {
			p.find(h, snapshot.Error, codeWildcardSNI, "spec.hostname", fmt.Sprintf("%q cannot be matched as a TLS server name", h.SNI),
				`use an exact hostname, "*.suffix" or "*"`)
			continue
		}
		if why := notOverQUIC(h); why != "" && p.listener.UDP {
			p.find(h, snapshot.Warning, codeNotOverQUIC, "spec.tls", fmt.Sprintf("not served over HTTP/3 on listener %s: %s", p.listener.Name, why),
				"leave the Host to a Listener of TCP, or take back the setting")
			continue
		}
		c := chains[h.SNI]
		if c == nil {
			c = &chain{}
			chains[h.SNI] = c
		} else if tlsIdentity(c.hosts[0].TLS) != tlsIdentity(h.TLS) {
			p.find(h, snapshot.Error, codeTLSConflict, "spec.tlsSecret",
				fmt.Sprintf("%s serves server name %q with another certificate or other TLS settings", nameOf(c.hosts[0].Origin), h.SNI),
				"give both Hosts the same tlsSecret and TLS settings")
			continue
		}
		c.hosts = append(c.hosts, h)
		name := tlsConfigName(p.listener.Name, h.TLS)
		byConfig[name] = append(byConfig[name], h)
	}
	for sni, c := range chains {
		transport, tls := "tls", c.hosts[0].TLS
		if p.listener.UDP {
			transport, tls = "quic", overQUIC(tls)
		}
		p.addChain("tls/"+sni, ir.ChainMatch{ServerNames: serverNames(sni), Transport: transport}, c.hosts, tls, tlsConfigName(p.listener.Name, c.hosts[0].TLS))
	}
	for name, hosts := range byConfig {
		p.planTLSConfig(name, hosts)
	}
}

func serverNames(sni string) []string {
	if sni == "*" {
		return nil
	}
	return []string{sni}
}

// planTLSConfig plans the route configuration of the hosts of one TLS identity. An authority of another host never falls
// through to a wider host here, with or without a port: it is answered 421.
func (p *httpPlan) planTLSConfig(name string, hosts []*ir.HostFragment) {
	plan := &configPlan{name: name}
	mine := map[string]bool{}
	for _, h := range hosts {
		mine[h.Domain] = true
		p.addHost(plan, h, true)
	}
	var foreign []string
	var refusing []*ir.HostFragment
	wide := slices.DeleteFunc(slices.Clone(hosts), func(m *ir.HostFragment) bool { return !strings.Contains(m.Domain, "*") })
	if len(wide) > 0 { // An exact name covers no other.
		for _, h := range p.hosts {
			if mine[h.Domain] || h.TLS == nil && h.Closed == "" {
				continue
			}
			if slices.ContainsFunc(wide, func(m *ir.HostFragment) bool { return covers(m.SNI, h.SNI) }) {
				foreign, refusing = append(foreign, h.Domain), append(refusing, h)
				if h.Domain != h.SNI {
					plan.ported = true
					if !mine[h.SNI] { // its connections are those of the name, whatever the port
						foreign = append(foreign, h.SNI)
					}
				}
			}
		}
	}
	plan.apart = len(foreign) > 0
	if !mine["*"] {
		foreign = append(foreign, "*")
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		plan.hosts = append(plan.hosts, &hostPlan{domains: slices.Compact(foreign), fixed: misdirected})
	}
	plan.spread()
	plan.keepOut(refusing, func(h *hostPlan) bool { return h.fixed == nil }, p.linker, p.topology)
	p.topology.plans = append(p.topology.plans, plan)
}

// planClear makes the chain for clear text, with one route configuration for all hosts. A host that serves nothing in
// clear text has its virtual host there too, as a wider one would take its requests else.
func (p *httpPlan) planClear() {
	plan := &configPlan{name: p.listener.Name + "/clear"}
	var served []*ir.HostFragment
	for _, h := range p.hosts {
		switch {
		case p.listener.TLS && p.listener.Security == ir.SecuritySecure:
			if h.TLS == nil && h.Closed == "" {
				p.find(h, snapshot.Warning, codeSecureClearText, "spec.tlsSecret",
					fmt.Sprintf("listener %s terminates TLS and takes every request for secure, so a Host without TLS is not served there", p.listener.Name),
					"give the Host a tlsSecret, or the Listener securityModel XFP")
			}
		case p.listener.Security == ir.SecurityInsecure && h.Insecure == ir.InsecureReject && h.Closed == "":
			p.addHost(plan, h, false)
		default:
			served = append(served, h)
			p.addHost(plan, h, false)
		}
	}
	open := func(h *ir.HostFragment) bool { return h.Closed == "" && h.Insecure == ir.InsecureRoute }
	plan.spread()
	refusing := slices.DeleteFunc(slices.Clone(p.hosts), func(h *ir.HostFragment) bool {
		return h.Domain != h.SNI || h.Closed == "" && preludeFor(p.listener.Security, h.Insecure, p.listener.Chain, false) == preludeNone
	})
	plan.keepOut(refusing, func(h *hostPlan) bool { return h.set != nil && h.prelude == preludeNone }, p.linker, p.topology)
	plan.apart = slices.ContainsFunc(served, func(h *ir.HostFragment) bool { return open(h) && strings.Contains(h.Domain, "*") }) &&
		slices.ContainsFunc(p.hosts, func(h *ir.HostFragment) bool { return !open(h) })
	if len(served) == 0 {
		return
	}
	match := ir.ChainMatch{}
	if p.listener.TLS {
		match.Transport = "raw_buffer"
	}
	p.addChain("clear", match, nil, nil, plan.name)
	p.topology.plans = append(p.topology.plans, plan)
}

func (p *httpPlan) reportDropped() {
	for _, h := range p.hosts {
		if h.TLS == nil {
			p.find(h, snapshot.Warning, codeClearTextDropped, "",
				fmt.Sprintf("a TCP route takes every connection of port %d, so the Host is not served there in clear text", p.listener.Port),
				"move the TCP route to a port of its own")
		}
	}
}

func (p *httpPlan) addChain(name string, m ir.ChainMatch, hosts []*ir.HostFragment, tls *ir.DownstreamTLS, config string) {
	http := *p.listener.Chain
	http.RouteConfig = config
	c := &ir.FilterChain{Name: name, Match: m, TLS: tls, HTTP: &http, Origins: slices.Clone(p.out.Origins)}
	for _, h := range hosts {
		if h.Origin != nil {
			c.Origins = append(c.Origins, h.Origin.Ref)
		}
	}
	p.out.Chains = append(p.out.Chains, c)
}

// addHost puts the host into the configuration, together with those that have the same routes and the same prelude.
func (p *httpPlan) addHost(plan *configPlan, h *ir.HostFragment, tls bool) {
	set := p.topology.setOf[hostID(h)]
	plan.ported = plan.ported || h.Domain != h.SNI
	pre := preludeFor(p.listener.Security, h.Insecure, p.listener.Chain, tls)
	fixed := (*ir.Route)(nil)
	if h.Closed != "" {
		set, pre, fixed = nil, preludeNone, closed
	}
	key := shared{set, pre, fixed, 0}
	if tls && fixed == nil {
		key.http3 = p.advertised(h)
	}
	if have := plan.shared[key]; have != nil {
		have.domains = append(have.domains, h.Domain)
		have.addOrigin(h)
		return
	}
	n := &hostPlan{domains: []string{h.Domain}, set: set, prelude: pre, fixed: fixed, http3: key.http3}
	n.addOrigin(h)
	plan.hosts = append(plan.hosts, n)
	if plan.shared == nil {
		plan.shared = map[shared]*hostPlan{}
	}
	plan.shared[key] = n
}

func (n *hostPlan) addOrigin(h *ir.HostFragment) {
	if h.Origin != nil {
		n.origins = append(n.origins, h.Origin.Ref)
	}
}

func (p *httpPlan) find(h *ir.HostFragment, s snapshot.Severity, c *snapshot.Code, path, message, help string) {
	if h.Origin != nil {
		p.topology.findings = append(p.topology.findings, h.Origin.About(s, c, cmp.Or(h.At, path), message, help))
	}
}
