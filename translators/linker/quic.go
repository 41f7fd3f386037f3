package linker

import "github.com/chancery-gateway/chancery/translators/ir"

// notOverQUIC says why a host with TLS cannot be served over HTTP/3; "" where it can. What a host asks of its clients must not
// be got around by another protocol.
func notOverQUIC(h *ir.HostFragment) string {
	switch {
	case h.TLS == nil:
		return "it has no TLS"
	case h.TLS.RequireClientCertificate || h.TLS.Validation != "":
		return "Envoy asks for no client certificates there"
	case h.TLS.Params.MaxVersion != "" && h.TLS.Params.MaxVersion != "1.3":
		return "its max_tls_version is below 1.3"
	}
	return ""
}

// overQUIC returns the settings for QUIC: what is offered by ALPN over TCP is not what is spoken here.
func overQUIC(t *ir.DownstreamTLS) *ir.DownstreamTLS {
	q := *t
	q.Params.ALPN, q.Params.CipherSuites = []string{"h3"}, nil // TLS 1.3 has suites of its own
	return &q
}

// planQUIC notes which hosts HTTP/3 serves on which port.
func (t *topology) planQUIC(listeners []*ir.ListenerFragment, settled [][]*ir.HostFragment) {
	t.quic = map[port]map[*ir.HostFragment]bool{}
	for i, lf := range listeners {
		if !lf.UDP {
			continue
		}
		served := map[*ir.HostFragment]bool{}
		for _, h := range settled[i] {
			if h.Closed == "" && notOverQUIC(h) == "" {
				served[h] = true
			}
		}
		t.quic[port{lf.Address, lf.Port}] = served
	}
}

// advertised is the port on which clients of this listener find the host over HTTP/3: where there is a Listener of UDP with the
// same address and port that serves it. Ports such as 8443 stand behind 443, by custom.
func (p *httpPlan) advertised(h *ir.HostFragment) uint32 {
	lf := p.listener
	switch {
	case lf.UDP || !p.topology.quic[port{lf.Address, lf.Port}][h]:
		return 0
	case lf.Port%1000 == 443:
		return 443
	}
	return lf.Port
}
