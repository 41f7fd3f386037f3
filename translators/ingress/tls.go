package ingress

import (
	"fmt"
	"slices"
	"strings"

	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// hostLabel is on every route of a rule with a host, and selects those for the hosts that tls makes: Mappings are not on them, as
// in Emissary, which has a label for each Ingress.
const (
	hostLabel      = "chancery.dev/ingress"
	hostLabelValue = "rule"
)

// tls makes a host of each name with a certificate.
func (l *lowering) tls(entries []networking.IngressTLS) {
	for i := range entries {
		e, at := &entries[i], fmt.Sprintf("spec.tls[%d]", i)
		if e.SecretName == "" {
			l.warn(codeNoEffect, at, "no certificate is named, so these hosts are served as their Hosts say", "write secretName, or a Host for each name")
			continue
		}
		if len(e.Hosts) == 0 {
			l.secure("*", e.SecretName, fmt.Sprintf("%s-%d-0", l.o.Name, i), at, at)
		}
		for j, name := range e.Hosts {
			where := fmt.Sprintf("%s.hosts[%d]", at, j)
			if host, ok := l.hostname(name, where); ok {
				l.secure(host, e.SecretName, fmt.Sprintf("%s-%d-%d", l.o.Name, i, j), at, where)
			}
		}
	}
}

// secure makes the host of one name. It is called as Emissary calls it, which is where a TLSContext is looked for.
func (l *lowering) secure(host, secret, name, at, where string) {
	if slices.Contains(l.secured, host) {
		l.warn(codeTwice, where, fmt.Sprintf("%q has a certificate already", host), "remove one of the two")
		return
	}
	spec := &api.HostSpec{Hostname: host, TLSSecret: &api.SecretReference{Name: secret}, RequestPolicy: &api.RequestPolicy{}}
	spec.RequestPolicy.Insecure.Action = api.InsecureRoute
	if host != "*" || l.hasHosts() {
		spec.MappingSelector = &api.LabelSelector{MatchLabels: map[string]string{hostLabel: hostLabelValue}}
	} // else it stands in the place of the Host that is made up where there is none, and takes what that would
	part := l.f.emissary.LowerHost(l.o, name, spec, l.v)
	l.secured = append(l.secured, host)
	closed := false
	for _, h := range part.Hosts {
		h.Shared, h.At = true, where
		closed = closed || h.Closed != ""
	}
	for k := range part.Diagnostics {
		d := &part.Diagnostics[k]
		if d.Path == "spec.tlsSecret" {
			d.Path = at + ".secretName"
		} else {
			d.Path = where
		}
		if text, is := strings.CutSuffix(d.Message, "; the host is closed"); is {
			d.Message = text + fmt.Sprintf("; until there is one, %q is served as if tls did not name it", host)
		}
	}
	if closed { // Clear text is served anyway, and what issues the certificate may need that.
		part = &ir.Fragments{Diagnostics: part.Diagnostics}
	}
	l.out.Join(part)
}

// hasHosts reports whether there is a Host, be it a refused one.
func (l *lowering) hasHosts() bool {
	for o := range l.v.List(api.KindHost) {
		if l.f.emissary.Owns(o) {
			return true
		}
	}
	return l.v.Refused(api.KindHost)
}

// hostname checks a host as the API server does and returns it in lower case; Emissary knows "*" too.
func (l *lowering) hostname(name, at string) (string, bool) {
	host := strings.ToLower(name)
	if host == "*" {
		return host, true
	}
	wrong := validation.IsDNS1123Subdomain(host)
	if strings.Contains(host, "*") {
		wrong = validation.IsWildcardDNS1123Subdomain(host)
	}
	if len(wrong) > 0 {
		l.fail(codeHost, at, fmt.Sprintf("%q is no host name", name), "write a name such as shop.example.com or *.example.com")
		return "", false
	}
	return host, true
}

// except returns the names below a wildcard for which some Ingress of ours has rules of their own: they go before the wildcard's,
// whatever the paths.
func (l *lowering) except(wildcard string) []string {
	suffix := strings.TrimPrefix(wildcard, "*")
	var out []string
	for o := range l.v.List(Kind) {
		if !l.f.isOurs(o, l.v) {
			continue
		}
		spec, _, err := decode(o)
		if err != nil {
			continue
		}
		for i := range spec.Rules {
			r := &spec.Rules[i]
			host := strings.ToLower(r.Host)
			if label, below := strings.CutSuffix(host, suffix); below && label != "" && !strings.ContainsAny(label, ".*") && r.HTTP != nil && len(r.HTTP.Paths) > 0 {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// labels are those of routes that the hosts of tls take.
func labels(o *snapshot.Object) map[string]string {
	out := map[string]string{hostLabel: hostLabelValue}
	for k, v := range o.Labels {
		out[k] = v
	}
	return out
}
