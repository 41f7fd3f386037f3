package simulator

import (
	"fmt"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// domainRank orders domains that match one host: Envoy looks for the exact domain, then for the longest "*suffix", then
// for the longest "prefix*", then for "*" (Envoy docs: config.route.v3.VirtualHost domains).
type domainRank struct{ kind, length int }

func (a domainRank) better(b domainRank) bool {
	return a.kind > b.kind || a.kind == b.kind && a.length > b.length
}

// matchDomain compares a domain with a lower-case host. A wildcard stands for at least one character.
func matchDomain(domain, host string) (domainRank, bool) {
	domain = strings.ToLower(domain)
	switch {
	case domain == "*":
		return domainRank{kind: 1}, true
	case domain == host:
		return domainRank{4, len(domain)}, true
	case strings.HasPrefix(domain, "*"):
		return domainRank{3, len(domain)}, len(host) >= len(domain) && strings.HasSuffix(host, domain[1:])
	case strings.HasSuffix(domain, "*"):
		return domainRank{2, len(domain)}, len(host) >= len(domain) && strings.HasPrefix(host, domain[:len(domain)-1])
	}
	return domainRank{}, false
}

// bestDomain returns the virtual host's nearest domain for the host.
func bestDomain(v *ir.VirtualHost, host string) (domain string, rank domainRank, ok bool) {
	for _, d := range v.Domains {
		if r, match := matchDomain(d, host); match && (!ok || r.better(rank)) {
			domain, rank, ok = d, r, true
		}
	}
	return domain, rank, ok
}

// pickVirtualHost finds the virtual host for the authority and records those that came near.
func pickVirtualHost(rc *ir.RouteConfig, authority string, t *Trace) *ir.VirtualHost {
	host := strings.ToLower(authority)
	var best *ir.VirtualHost
	var bestRank domainRank
	var bestName string
	for _, v := range rc.VirtualHosts {
		if d, rank, ok := bestDomain(v, host); ok && (best == nil || rank.better(bestRank)) {
			best, bestRank, bestName = v, rank, d
		}
	}
	bare, port := splitPort(host)
	for _, v := range rc.VirtualHosts {
		if v == best {
			continue
		}
		c := Candidate{Kind: "virtual host", Name: v.Name, Origins: v.Origins}
		if d, _, ok := bestDomain(v, host); ok {
			c.Match, c.Reason = fmt.Sprintf("domain %q", d), fmt.Sprintf("domain %q is nearer", bestName)
		} else if d, rank, ok := bestDomain(v, bare); ok && port != "" && rank.kind > bestRank.kind {
			c.Match, c.Reason = fmt.Sprintf("domain %q", d), fmt.Sprintf("the request's host %q has a port, the domain has none", host)
			if port == fmt.Sprint(t.Request.Port) {
				c.Reason += "; strip_matching_host_port: true in the Module takes it off"
			}
		} else if d, rank, ok := bestDomain(v, fmt.Sprintf("%s:%d", host, t.Request.Port)); ok && port == "" && rank.kind > bestRank.kind {
			c.Match, c.Reason = fmt.Sprintf("domain %q", d), fmt.Sprintf("the domain has a port, the request's host %q has none", host)
		} else {
			continue
		}
		t.lose(c)
	}
	if best != nil {
		t.VirtualHost = &Step{Name: best.Name, Why: fmt.Sprintf("domain %q", bestName), Origins: best.Origins}
	}
	return best
}
