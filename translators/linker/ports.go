package linker

import (
	"regexp"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// Where no host of a route configuration is named with a port, Envoy leaves ports out, and a name stands for all of its ports. Where one is,
// ports count, and what a name stands for has to be said: an exact name by the prefix domain "name:*", which Envoy looks at after
// exact and suffix domains. A wildcard can have a port behind it in no domain of Envoy's, so that wider hosts refuse by the header.

// spread adds the ports to the names of a plan in which ports count: nothing for one in which they do not.
func (p *configPlan) spread() {
	if !p.ported {
		return
	}
	taken := map[string]bool{}
	var globs []string // with a port: Envoy prefers them to prefix domains
	for _, h := range p.hosts {
		for _, d := range h.domains {
			taken[d] = true
			if strings.HasPrefix(d, "*") && withoutPort(d) != d {
				globs = append(globs, d)
			}
		}
	}
	for _, h := range p.hosts {
		for _, d := range h.domains {
			if strings.Contains(d, "*") || withoutPort(d) != d {
				continue
			}
			names := []string{d + ":*"}
			for _, g := range globs {
				if name := withoutPort(g); covers(name, d) {
					names = append(names, d+g[len(name):])
				}
			}
			for _, n := range names {
				if !taken[n] {
					taken[n] = true
					h.ports = append(h.ports, n)
				}
			}
		}
	}
}

// keepOut makes the wide hosts among those that serve refuse what a narrower wildcard refuses, where that is named with a port.
func (p *configPlan) keepOut(refusing []*ir.HostFragment, serves func(*hostPlan) bool, l *Linker, t *topology) {
	if !p.ported {
		return
	}
	for _, r := range refusing {
		if r.SNI == "*" || !strings.Contains(r.SNI, "*") {
			continue
		}
		for _, h := range p.hosts {
			if !serves(h) {
				continue
			}
			for _, d := range h.domains {
				if strings.Contains(d, "*") && d != r.SNI && covers(withoutPort(d), r.SNI) {
					h.refuses = append(h.refuses, l.guard(r.SNI, t))
					break
				}
			}
		}
	}
}

// guard is the route that refuses the names of a wildcard with a port. It is the same as long as some host refuses them.
func (l *Linker) guard(glob string, t *topology) *ir.Route {
	if r := t.guards[glob]; r != nil {
		return r
	}
	r := l.topology.guards[glob]
	if r == nil {
		pattern := "(?i)" + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, `[^:]+`) + ":[0-9]+"
		r = &ir.Route{Name: "misdirected", Own: true, Direct: &ir.DirectResponse{Status: 421},
			Match: ir.Match{PathKind: ir.PathPrefix, Path: "/", Headers: []ir.ValueMatch{{Name: ":authority", Kind: ir.ValueRegex, Value: pattern}}}}
	}
	if t.guards == nil {
		t.guards = map[string]*ir.Route{}
	}
	t.guards[glob] = r
	return r
}
