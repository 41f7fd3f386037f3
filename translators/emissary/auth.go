package emissary

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Headers that always go to the service and back (Emissary docs: "AuthService").
var (
	authRequestHeaders = []string{
		"authorization", "cookie", "from", "proxy-authorization", "user-agent", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
	}
	authAnswerHeaders = []string{"authorization", "location", "proxy-authenticate", "set-cookie", "www-authenticate"}
)

// defaultAuthTimeout is timeout_ms' default.
const defaultAuthTimeout = 5000

// authService checks an AuthService. The one that counts brings the cluster; the filter itself is in the listeners.
func (l *lowering) authService(spec *api.AuthServiceSpec) {
	all := l.f.claims(l.v, api.KindAuthService)
	if lead := all[0]; lead != l.o {
		if !sharesLoad(lead, l.o) {
			l.fail(codeServiceSecond, "", fmt.Sprintf("not asked: AuthService %s/%s comes first, and several share the load only within one namespace and with equal settings",
				lead.Namespace, lead.Name), "remove one of them, or make their settings equal")
			return
		}
		if svc, err := parseService(spec.AuthService); err != nil || svc.extra != "" {
			l.reportTarget(spec)
		}
		return
	}
	l.extAuthz(spec, all)
}

// reportTarget reports what is wrong with the service of an AuthService that shares the load with another.
func (l *lowering) reportTarget(spec *api.AuthServiceSpec) {
	l.ownCluster(upstream{service: spec.AuthService, field: "auth_service"})
	l.out.Clusters, l.out.Secrets = nil, nil
}

// sharesLoad reports whether the second AuthService is one more target of the first: all but the service is equal, and
// nobody else's namespace gets a share of the questions.
func sharesLoad(lead, o *snapshot.Object) bool {
	a, b := *lead.Spec.(*api.AuthServiceSpec), *o.Spec.(*api.AuthServiceSpec)
	a.AuthService, b.AuthService = "", ""
	a.AmbassadorID, b.AmbassadorID = nil, nil
	a.AddLinkerdHeaders, b.AddLinkerdHeaders = nil, nil
	return lead.Namespace == o.Namespace && reflect.DeepEqual(a, b)
}

// authFilter returns the filter that asks the AuthService; nil where there is none. An AuthService that cannot be used,
// or one that its source refused where there is no other, closes what it would have guarded.
func (l *lowering) authFilter() *ir.Filter {
	all := l.f.claims(l.v, api.KindAuthService)
	if len(all) == 0 {
		if !l.v.Refused(api.KindAuthService) {
			return nil
		}
		l.warn(codeAuthClosed, "", "an AuthService is invalid and there is no other: requests that it would have been asked about are answered 500", "correct the AuthService")
		return &ir.Filter{Name: ir.FilterExtAuthz, Config: &ir.ExtAuthz{Closed: "the AuthService is invalid"}}
	}
	aside := l.aside(all[0])
	x := &ir.Filter{Name: ir.FilterExtAuthz, Config: aside.extAuthz(all[0].Spec.(*api.AuthServiceSpec), all)}
	for _, o := range all {
		if o == all[0] || sharesLoad(all[0], o) {
			x.Origins = append(x.Origins, o.Ref)
		}
	}
	slices.SortFunc(x.Origins, ir.Origin.Compare)
	return x
}

// extAuthz makes the filter's settings and the cluster from the AuthService that counts; all are those of the
// installation. What is wrong with it closes the filter.
func (l *lowering) extAuthz(spec *api.AuthServiceSpec, all []*snapshot.Object) *ir.ExtAuthz {
	out := &ir.ExtAuthz{
		PathPrefix:       spec.PathPrefix,
		TimeoutMillis:    l.span("spec.timeout_ms", spec.Timeout, defaultAuthTimeout),
		FailureModeAllow: spec.FailureModeAllow != nil && *spec.FailureModeAllow,
		StatusOnError:    l.statusOnError(spec),
		Body:             l.authBody(spec),
	}
	switch spec.Proto {
	case "", "http":
		l.httpQuestion(out, spec)
	case "grpc":
		out.GRPC, out.PathPrefix = true, ""
		l.speaksV3(spec.ProtocolVersion)
		l.httpOnly(spec)
	default:
		l.fail(codeServiceValue, "spec.proto", fmt.Sprintf("unknown protocol %q", spec.Proto), "http or grpc")
	}
	c, svc := l.ownCluster(upstream{
		service: spec.AuthService, field: "auth_service", tls: spec.TLS, grpc: out.GRPC, statsName: spec.StatsName, breakers: spec.CircuitBreakers,
	})
	if c == nil {
		l.report(snapshot.Error, codeAuthClosed, "", "the AuthService cannot be asked: requests on routes without bypass_auth are answered 500", "")
		return &ir.ExtAuthz{Closed: "the AuthService cannot be used"}
	}
	l.shareLoad(c, all)
	out.Cluster = c.Name
	if !out.GRPC {
		scheme := "http://"
		if c.TLS != nil {
			scheme = "https://"
		}
		out.URI = scheme + l.o.Name + "." + l.o.Namespace // Envoy takes nothing but the scheme from it.
		if l.wantsLinkerd(all) {
			svc = l.qualified(svc).withPort(c.TLS != nil)
			out.AddHeaders = append(out.AddHeaders, ir.HeaderValue{Name: "l5d-dst-override", Value: svc.hostPort()})
		}
	}
	return out
}

// qualified returns the service as the cluster has it.
func (l *lowering) qualified(svc service) service {
	if l.set.ownNamespaceServices {
		return svc
	}
	return svc.qualify(l.o.Namespace, l.f.options.Namespace)
}

// wantsLinkerd reports whether one of the joined AuthServices, or the Module, asks for Linkerd's header.
func (l *lowering) wantsLinkerd(all []*snapshot.Object) bool {
	for _, o := range all {
		if o != all[0] && !sharesLoad(all[0], o) {
			continue
		}
		on := l.set.linkerd
		if own := o.Spec.(*api.AuthServiceSpec).AddLinkerdHeaders; own != nil {
			on = *own
		}
		if on {
			return true
		}
	}
	return false
}

// shareLoad adds the targets of the AuthServices that share the load. Targets that are names make all of them resolved.
func (l *lowering) shareLoad(c *ir.Cluster, all []*snapshot.Object) {
	for _, o := range all[1:] {
		svc, err := parseService(o.Spec.(*api.AuthServiceSpec).AuthService)
		if err != nil || !sharesLoad(all[0], o) {
			continue // Its own finding.
		}
		svc = l.qualified(svc).withPort(c.TLS != nil)
		t := ir.Target{Host: svc.host, Port: svc.port}
		if t == (ir.Target{Host: c.Host, Port: c.Port}) || slices.Contains(c.More, t) {
			continue
		}
		c.More = append(c.More, t)
		c.Origins = append(slices.Clip(c.Origins), o.Ref)
		if !svc.ip && c.Discovery == ir.DiscoveryStatic {
			c.Discovery, c.DNSFamily = ir.DiscoveryStrictDNS, l.dnsFamily(upstream{})
		}
	}
	slices.SortFunc(c.More, func(a, b ir.Target) int {
		if d := strings.Compare(a.Host, b.Host); d != 0 {
			return d
		}
		return int(a.Port) - int(b.Port)
	})
	slices.SortFunc(c.Origins, ir.Origin.Compare)
	if len(c.More) > 0 {
		c.Name = clusterName(c, "", l.scratch[:0])
	}
}

// httpQuestion fills in what only a service that speaks plain HTTP is told.
func (l *lowering) httpQuestion(out *ir.ExtAuthz, spec *api.AuthServiceSpec) {
	out.RequestHeaders = l.headerNames("spec.allowed_request_headers", spec.AllowedRequestHeaders, authRequestHeaders)
	out.AnswerHeaders = l.headerNames("spec.allowed_authorization_headers", spec.AllowedAuthorizationHeaders, authAnswerHeaders)
	if p := spec.PathPrefix; p != "" && (!strings.HasPrefix(p, "/") || checkHeaderText(p) != nil) {
		l.fail(codeServiceValue, "spec.path_prefix", fmt.Sprintf("%q is no path", p), "a path begins with \"/\"")
	}
	for _, name := range sortedKeys(spec.AddAuthHeaders) {
		at, value := "spec.add_auth_headers["+name+"]", spec.AddAuthHeaders[name]
		if err := checkHeaderName(name); err != nil {
			l.fail(codeServiceValue, at, err.Error(), "")
		} else if err := checkHeaderText(value); err != nil {
			l.fail(codeServiceValue, at, err.Error(), "")
		}
		out.AddHeaders = append(out.AddHeaders, ir.HeaderValue{Name: name, Value: value})
	}
}

// httpOnly warns of fields that a service that speaks gRPC has no use for.
func (l *lowering) httpOnly(spec *api.AuthServiceSpec) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"path_prefix", spec.PathPrefix != ""}, {"allowed_request_headers", len(spec.AllowedRequestHeaders) > 0},
		{"allowed_authorization_headers", len(spec.AllowedAuthorizationHeaders) > 0}, {"add_auth_headers", len(spec.AddAuthHeaders) > 0},
	} {
		if f.set {
			l.warn(codeServiceNoEffect, "spec."+f.name, "accepted, but has no effect with proto: grpc", "")
		}
	}
}

// headerNames joins names with those that are always there, in lower case, sorted. One that no header can have is
// reported and left out: less is told.
func (l *lowering) headerNames(path string, list, always []string) []string {
	out := slices.Clone(always)
	for i, name := range list {
		if err := checkToken(name); err != nil {
			l.report(snapshot.Error, codeServiceValue, fmt.Sprintf("%s[%d]", path, i), err.Error(), "")
			continue
		}
		out = append(out, strings.ToLower(name))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (l *lowering) authBody(spec *api.AuthServiceSpec) *ir.ExtAuthzBody {
	allow := spec.AllowRequestBody != nil && *spec.AllowRequestBody
	b := spec.IncludeBody
	if b == nil {
		if allow {
			return &ir.ExtAuthzBody{MaxBytes: 4096, Partial: true}
		}
		return nil
	}
	if allow {
		l.warn(codeServiceNoEffect, "spec.allow_request_body", "ignored: include_body is set too", "remove one of both")
	}
	if b.MaxBytes == nil || *b.MaxBytes < 1 || *b.MaxBytes > math.MaxUint32 {
		l.fail(codeServiceValue, "spec.include_body.max_bytes", "a number of bytes is needed", "1 to 4294967295")
		return nil
	}
	return &ir.ExtAuthzBody{MaxBytes: uint32(*b.MaxBytes), Partial: b.AllowPartial != nil && *b.AllowPartial}
}

// httpStatuses are the codes that Envoy can answer with (Envoy docs: type.v3.StatusCode).
var httpStatuses = []int64{
	200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410,
	411, 412, 413, 414, 415, 416, 417, 421, 422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
}

func (l *lowering) statusOnError(spec *api.AuthServiceSpec) uint32 {
	if spec.StatusOnError == nil || spec.StatusOnError.Code == 0 {
		return 0
	}
	code := spec.StatusOnError.Code
	if !slices.Contains(httpStatuses, code) {
		l.report(snapshot.Error, codeServiceValue, "spec.status_on_error.code", fmt.Sprintf("%d is no status that Envoy answers with; 403 is used", code), "such as 503")
		return 0
	}
	return uint32(code)
}

// routeAuth fills in what a Mapping says about authentication.
func (l *lowering) routeAuth(r *ir.Route, spec *api.MappingSpec) {
	switch {
	case spec.BypassAuth:
		setFilter(r, ir.FilterExtAuthz, &ir.ExtAuthzRoute{Disabled: true})
		if len(spec.AuthContextExtensions) > 0 {
			l.warn(codeMappingNoEffect, "spec.auth_context_extensions", "accepted, but has no effect with bypass_auth", "")
		}
	case len(spec.AuthContextExtensions) > 0:
		setFilter(r, ir.FilterExtAuthz, &ir.ExtAuthzRoute{Context: spec.AuthContextExtensions})
	}
}

func setFilter(r *ir.Route, name string, config any) {
	if r.Filters == nil {
		r.Filters = ir.RouteFilters{}
	}
	r.Filters[name] = config
}
