package gatewayapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// overlap says whether clients may take a connection to the listener for one that serves another's names as well: because its
// hostname takes in the other's (or is taken in), or because a certificate does. nil for no. (Gateway API: OverlappingTLSConfig;
// RFC 9110, 4.3.3.) HTTP/2 stays on all the same: a request for another's name is answered 421, upon which clients open a new
// connection.
func (l *lowering) overlap(g *gatewayPlan, p *listenerPlan) *ir.Condition {
	if p.spec.Protocol != gw.HTTPSProtocolType || !p.clash.stands() {
		return nil
	}
	var found *ir.Condition
	for _, other := range g.beside(p) {
		with := other.of.Ref.String() + " listener " + string(other.spec.Name)
		if l.sharesNames(p, other) {
			c := yes(string(gw.ListenerConditionOverlappingTLSConfig), string(gw.ListenerReasonOverlappingCertificates), "a certificate is for names of "+with+" too")
			return &c
		}
		if found == nil && meet(p.hostname, other.hostname) != "" {
			c := yes(string(gw.ListenerConditionOverlappingTLSConfig), string(gw.ListenerReasonOverlappingHostnames), fmt.Sprintf("hostnames %q and %q (%s) overlap", p.hostname, other.hostname, with))
			found = &c
		}
	}
	return found
}

// beside are the other HTTPS listeners of the Gateway, its ListenerSets included, on the same port.
func (g *gatewayPlan) beside(p *listenerPlan) []*listenerPlan {
	var out []*listenerPlan
	add := func(all []*listenerPlan) {
		for _, other := range all {
			if other != p && other.spec.Port == p.spec.Port && other.spec.Protocol == gw.HTTPSProtocolType && other.clash.stands() {
				out = append(out, other)
			}
		}
	}
	add(g.listeners)
	for _, s := range g.sets {
		add(s.listeners)
	}
	return out
}

// sharesNames reports whether certificates of both listeners are for one and the same name.
func (l *lowering) sharesNames(a, b *listenerPlan) bool {
	for _, x := range l.certificateNames(a) {
		for _, y := range l.certificateNames(b) {
			if meet(x, y) != "" {
				return true
			}
		}
	}
	return false
}

// certificateNames are the DNS names of a listener's certificates.
func (l *lowering) certificateNames(p *listenerPlan) []string {
	if have, is := l.names[p]; is {
		return have
	}
	var out []string
	if p.spec.TLS != nil {
		w := l.f.plan(l.v)
		for i := range p.spec.TLS.CertificateRefs {
			out = append(out, w.secretNames(l, p.of, &p.spec.TLS.CertificateRefs[i])...)
		}
	}
	if l.names == nil {
		l.names = map[*listenerPlan][]string{}
	}
	l.names[p] = out
	return out
}

// secretNames are the DNS names, in lower case, of a certificate that the object names, nil where it cannot be used. It is read once
// for all listeners: each looks at those of all others.
func (w *world) secretNames(l *lowering, of *snapshot.Object, ref *gw.SecretObjectReference) []string {
	to := secretRef(of, ref)
	o := l.v.Get(to.GroupKind(), to.Namespace, to.Name)
	if o == nil || value(ref.Group, "") != "" || value(ref.Kind, "Secret") != "Secret" || !granted(l.v, of, to) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out, is := w.names[o]
	if !is {
		quiet := *l
		quiet.out = &ir.Fragments{}
		if c, reason, _ := quiet.certificate(of, "", ref); reason == "" {
			for _, n := range c.Names {
				out = append(out, strings.ToLower(n))
			}
		}
		w.names[o] = out
	}
	return out
}

// meet returns what two host names have in common: the narrower one of two that cover one another, "" for nothing. "*" is every
// name, "*.x" every name with a label before x.
func meet(a, b string) string {
	switch {
	case a == b || b == "*":
		return a
	case a == "*":
		return b
	case strings.HasPrefix(b, "*.") && strings.HasSuffix(a, b[1:]) && len(a) > len(b)-1:
		return a
	case strings.HasPrefix(a, "*.") && strings.HasSuffix(b, a[1:]) && len(b) > len(a)-1:
		return b
	}
	return ""
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
