package simulator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// pickListener finds the listener that the client reaches. Where none has the wanted port, the first that fits the
// request is taken: inside a cluster the Service in front of Envoy usually maps 443 to 8443 and so on.
func pickListener(p *ir.Program, r Request, t *Trace) *ir.Listener {
	var fits, others []*ir.Listener
	for _, l := range p.Listeners {
		switch {
		case r.Listener != "":
			if l.Name == r.Listener {
				t.Listener = &Step{Name: l.Name, Why: "asked for by name", Origins: l.Origins}
				return l
			}
		case l.Port == r.Port && !l.UDP:
			t.Listener = &Step{Name: l.Name, Why: fmt.Sprintf("port %d", l.Port), Origins: l.Origins}
			return l
		case l.UDP:
		case serves(l, r):
			fits = append(fits, l)
		default:
			others = append(others, l)
		}
	}
	if len(fits) == 0 {
		for _, l := range others {
			t.lose(Candidate{Kind: "listener", Name: l.Name, Match: fmt.Sprintf("port %d", l.Port),
				Reason: fmt.Sprintf("no filter chain of it takes %s", connection(r)), Origins: l.Origins})
		}
		return nil
	}
	// 8443 stands for 443 and 8080 for 80, by custom.
	i := max(0, slices.IndexFunc(fits, func(l *ir.Listener) bool { return l.Port%1000 == r.Port }))
	l := fits[i]
	t.Listener = &Step{Name: l.Name, Origins: l.Origins,
		Why: fmt.Sprintf("no listener has port %d; port %d takes %s", r.Port, l.Port, connection(r))}
	for j, o := range fits {
		if j != i {
			t.lose(Candidate{Kind: "listener", Name: o.Name, Match: fmt.Sprintf("port %d", o.Port),
				Reason: fmt.Sprintf("fits too; ask for it with port %d", o.Port), Origins: o.Origins})
		}
	}
	return l
}

// serves reports whether a connection like the request's comes about on the listener.
func serves(l *ir.Listener, r Request) bool {
	c, _ := pickChain(l, r)
	return c != nil && handshake(c, r) == ""
}

func connection(r Request) string {
	switch {
	case !r.TLS:
		return "clear text"
	case r.SNI == "":
		return "TLS without server name"
	}
	return fmt.Sprintf("TLS for %q", strings.ToLower(r.SNI))
}

// pickChain follows Envoy's filter chain match: the exact server name, then wildcards from the longest to the shortest,
// then chains without server names; within the one that is found the transport protocol, then any. There is no way
// back: a server name that is found with the wrong transport protocol ends the search (Envoy docs: FilterChainMatch).
func pickChain(l *ir.Listener, r Request) (chain *ir.FilterChain, why string) {
	transport, name := "raw_buffer", ""
	switch {
	case l.UDP:
		transport, name = "quic", strings.ToLower(r.SNI)
	case r.TLS && inspectsTLS(l):
		transport, name = "tls", strings.ToLower(r.SNI)
	}
	for _, wanted := range serverNames(name) {
		var within []*ir.FilterChain
		for _, c := range l.Chains {
			if wanted == "" && len(c.Match.ServerNames) == 0 || wanted != "" && slices.Contains(c.Match.ServerNames, wanted) {
				within = append(within, c)
			}
		}
		if len(within) == 0 {
			continue
		}
		for _, want := range []string{transport, ""} {
			for _, c := range within {
				if c.Match.Transport == want {
					return c, describeChain(wanted, want)
				}
			}
		}
		return nil, fmt.Sprintf("%s is there, but not for transport protocol %q", describeChain(wanted, ""), transport)
	}
	return nil, fmt.Sprintf("no filter chain takes %s", connection(r))
}

// serverNames lists what Envoy looks up for a server name: itself, its wildcards, and "" for chains without names.
func serverNames(name string) []string {
	names := []string{}
	if name != "" {
		names = append(names, name)
		for i := 1; i < len(name)-1; i++ {
			if name[i] == '.' {
				names = append(names, "*"+name[i:])
			}
		}
	}
	return append(names, "")
}

// inspectsTLS: Envoy adds the TLS inspector by itself where a chain's match needs it.
func inspectsTLS(l *ir.Listener) bool {
	return l.TLSInspector || slices.ContainsFunc(l.Chains, func(c *ir.FilterChain) bool {
		return len(c.Match.ServerNames) > 0 || c.Match.Transport == "tls"
	})
}

func describeChain(serverName, transport string) string {
	var parts []string
	if serverName != "" {
		parts = append(parts, fmt.Sprintf("server name %q", serverName))
	}
	switch transport {
	case "tls":
		parts = append(parts, "TLS")
	case "raw_buffer":
		parts = append(parts, "clear text")
	case "quic":
		parts = append(parts, "QUIC")
	}
	if len(parts) == 0 {
		return "every connection"
	}
	return strings.Join(parts, ", ")
}

// handshake says why client and chain do not come together, or "".
func handshake(c *ir.FilterChain, r Request) string {
	switch {
	case c.TLS != nil && !r.TLS:
		return "the filter chain speaks TLS, the client clear text"
	case c.TLS == nil && c.HTTP != nil && r.TLS:
		return "the filter chain speaks clear text, the client TLS"
	case c.TLS != nil && len(c.TLS.Certificates) == 0:
		return "the filter chain has no certificate"
	}
	return ""
}

// loseChains records the chains that would have taken the connection but for a nearer one, or for their transport protocol.
func loseChains(l *ir.Listener, chosen *ir.FilterChain, r Request, t *Trace) {
	names := serverNames(strings.ToLower(r.SNI))
	for _, c := range l.Chains {
		if c == chosen {
			continue
		}
		at := slices.IndexFunc(names, func(n string) bool {
			return n == "" && len(c.Match.ServerNames) == 0 || n != "" && slices.Contains(c.Match.ServerNames, n)
		})
		if at < 0 || !r.TLS && len(c.Match.ServerNames) > 0 {
			continue
		}
		reason := "a nearer match comes first"
		switch {
		case c.Match.Transport == "tls" && !r.TLS:
			reason = "takes TLS only"
		case c.Match.Transport == "raw_buffer" && r.TLS:
			reason = "takes clear text only"
		}
		t.lose(Candidate{Kind: "filter chain", Name: c.Name, Match: describeChain(names[at], c.Match.Transport), Reason: reason, Origins: c.Origins})
	}
}
