package ingress

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/emissary"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// rules makes a route of each path.
func (l *lowering) rules(rules []networking.IngressRule) {
	for i := range rules {
		r, at := &rules[i], fmt.Sprintf("spec.rules[%d]", i)
		host, ok := "", true
		if r.Host != "" {
			host, ok = l.hostname(r.Host, at+".host")
			if _, err := netip.ParseAddr(host); ok && err == nil {
				l.fail(codeHost, at+".host", fmt.Sprintf("%q is an IP address, not a host name", host), "write a name, or no host for all")
				ok = false
			}
		}
		if host == "*" {
			host = "" // Emissary takes it for none
		}
		if r.HTTP == nil || len(r.HTTP.Paths) == 0 {
			l.warn(codeNoEffect, at, "the rule has no paths", "write http.paths; other requests go to the default backend")
			continue
		}
		if !ok {
			continue
		}
		var except []string
		if strings.HasPrefix(host, "*.") {
			except = l.except(host)
		}
		for j := range r.HTTP.Paths {
			d := &emissary.Derived{Name: fmt.Sprintf("%d-%d", i, j), At: fmt.Sprintf("%s.http.paths[%d]", at, j), OneLabel: true, Except: except}
			if spec := l.match(&r.HTTP.Paths[j], d); spec != nil {
				l.route(host, d, spec, &r.HTTP.Paths[j].Backend, d.At+".backend")
			}
		}
	}
}

const (
	exactPrecedence = 1             // Emissary's: exact paths go first
	lastPrecedence  = math.MinInt32 // the default backend is for what nothing else matches
)

// fallback makes the routes of the default backend: on every host that selects no labels, and on those that tls makes.
func (l *lowering) fallback(b *networking.IngressBackend) {
	if b == nil {
		return
	}
	last := int64(lastPrecedence)
	const at = "spec.defaultBackend"
	spec := &api.MappingSpec{Prefix: "/", Precedence: &last}
	l.route("*", &emissary.Derived{Name: "default-backend", At: at}, spec, b, at)
	if len(l.secured) > 0 {
		l.route("", &emissary.Derived{Name: "default-backend-tls", At: at}, spec, b, at)
	}
}

// route makes the routes of one path: on its host or, without one, on the hosts that tls makes, or on all where it makes none.
func (l *lowering) route(host string, d *emissary.Derived, spec *api.MappingSpec, b *networking.IngressBackend, at string) {
	service, wrong := l.service(b)
	if wrong != nil {
		l.fail(wrong.code, at+wrong.field, wrong.text+"; requests are answered 503", "")
		d.Status = http.StatusServiceUnavailable
	}
	spec.Service, d.Checked, d.Sole = service, true, true
	hosts := []string{host}
	switch {
	case host == "" && len(l.secured) > 0:
		d.Labels, hosts = labels(l.o), l.secured
	case host == "":
		hosts = []string{"*"}
	case host != "*":
		d.Labels = labels(l.o)
	}
	for n, host := range hosts {
		as, one := *d, *spec
		one.Hostname = host
		as.Spec = &one
		if n > 0 {
			as.Name += fmt.Sprintf("-%d", n)
		}
		l.join(l.f.emissary.LowerMapping(l.o, &as, l.v), d.At)
	}
}

// join adds what a path became, unless an earlier one has its match.
func (l *lowering) join(part *ir.Fragments, at string) {
	for _, r := range part.Routes {
		if first, is := l.given[r.Group]; is {
			l.warn(codeTwice, at, "the same host and path stand at "+first+" already", "remove one of the two")
			return
		}
		if l.given == nil {
			l.given = map[string]string{}
		}
		l.given[r.Group] = at
	}
	l.out.Join(part)
}

// match returns the Mapping of a path without host and service; nil where the path is none.
func (l *lowering) match(p *networking.HTTPIngressPath, d *emissary.Derived) *api.MappingSpec {
	kind := networking.PathTypeImplementationSpecific
	if p.PathType == nil {
		l.warn(codePath, d.At+".pathType", "the type is missing; ImplementationSpecific is taken", "write Exact, Prefix or ImplementationSpecific")
	} else {
		kind = *p.PathType
	}
	spec := &api.MappingSpec{Prefix: p.Path}
	if spec.Prefix == "" {
		spec.Prefix = "/"
	}
	switch kind {
	case networking.PathTypeExact:
		precedence := int64(exactPrecedence)
		spec.PrefixExact, spec.Precedence = true, &precedence
	case networking.PathTypePrefix:
		d.Segments = true
	case networking.PathTypeImplementationSpecific:
		if strings.ContainsAny(spec.Prefix, `*()[]{}|^$\`) {
			l.warn(codePath, d.At+".path", fmt.Sprintf("%q is compared as it stands: there are no expressions here", spec.Prefix), "write a plain prefix, or a Mapping with prefix_regex")
		}
	default:
		l.fail(codePath, d.At+".pathType", fmt.Sprintf("%q is no type of path", kind), "write Exact, Prefix or ImplementationSpecific")
		return nil
	}
	if why := badPath(spec.Prefix, kind); why != "" {
		l.fail(codePath, d.At+".path", fmt.Sprintf("%q %s", spec.Prefix, why), "write an absolute path without query")
		return nil
	}
	return spec
}

// badPath says what is wrong with a path, by the API server's own rules and what Envoy can compare.
func badPath(path string, kind networking.PathType) string {
	if !strings.HasPrefix(path, "/") {
		return `does not begin with "/"`
	}
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c == 0x7f || c == '?' || c == '#' {
			return fmt.Sprintf("has the character %q, which no path has", rune(c))
		}
	}
	if kind == networking.PathTypeImplementationSpecific {
		return ""
	}
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, part) {
			return fmt.Sprintf("has %q, which is taken out of requests before they are compared", part)
		}
	}
	if strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		return "ends in a dot segment, which is taken out of requests before they are compared"
	}
	return ""
}

// fault is what is wrong with a backend: the field is below it.
type fault struct {
	code        *snapshot.Code
	field, text string
}

// service returns a backend as a Mapping's service, or what is wrong with it.
func (l *lowering) service(b *networking.IngressBackend) (string, *fault) {
	switch {
	case b.Resource != nil && b.Service != nil:
		return "", &fault{codeBackend, "", "service and resource exclude each other"}
	case b.Resource != nil:
		return "", &fault{codeBackend, ".resource", fmt.Sprintf("resource backends such as %s %q are not served", b.Resource.Kind, b.Resource.Name)}
	case b.Service == nil:
		return "", &fault{codeBackend, "", "the service is missing"}
	case b.Service.Name == "":
		return "", &fault{codeBackend, ".service.name", "the name is missing"}
	case len(validation.IsDNS1123Label(b.Service.Name)) > 0:
		return "", &fault{codeBackend, ".service.name", fmt.Sprintf("%q is no name of a Service", b.Service.Name)}
	}
	port, wrong := l.port(b.Service)
	if wrong != nil {
		wrong.field = ".service.port"
		return "", wrong
	}
	return fmt.Sprintf("%s.%s:%d", b.Service.Name, l.o.Namespace, port), nil
}

// port returns the number of a Service's port, which may be named.
func (l *lowering) port(b *networking.IngressServiceBackend) (int32, *fault) {
	number, name := b.Port.Number, b.Port.Name
	switch {
	case name == "" && number == 0:
		return 0, &fault{code: codeBackend, text: "the port is missing: write number or name"}
	case name != "" && number != 0:
		return 0, &fault{code: codeBackend, text: "number and name exclude each other"}
	case name == "" && (number < 1 || number > 65535):
		return 0, &fault{code: codeBackend, text: fmt.Sprintf("%d is no port", number)}
	case name == "":
		return number, nil
	}
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && n > 0 { // a port's name has a letter
		return int32(n), nil
	}
	o := l.v.Get(snapshot.KindService, l.o.Namespace, b.Name)
	if o == nil {
		return 0, &fault{code: codePort, text: fmt.Sprintf("there is no Service %s/%s whose port could be named %q", l.o.Namespace, b.Name, name)}
	}
	var known []string
	if s, ok := o.Spec.(*snapshot.Service); ok {
		for _, p := range s.Ports {
			if p.Name == name {
				return p.Port, nil
			}
			known = append(known, fmt.Sprintf("%d %s", p.Port, p.Name))
		}
	}
	return 0, &fault{code: codePort, text: fmt.Sprintf("no port of Service %s/%s is named %q; it has %s", l.o.Namespace, b.Name, name, strings.Join(known, ", "))}
}
