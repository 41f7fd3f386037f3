package emissary

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// mapping makes the one route fragment of a Mapping. Everything that the Mapping says stays with its branch.
func (l *lowering) mapping(spec *api.MappingSpec) {
	pattern, authority := l.hosts(spec)
	r := &ir.Route{Name: l.o.Namespace + "/" + l.o.Name, Match: l.match(spec), Origins: l.origins()}
	frag := &ir.RouteFragment{
		Origin: l.o, Hosts: pattern, Labels: l.o.Labels, Authority: authority, Shadow: spec.Shadow, Weight: l.weight(codeMappingValue, spec.Weight),
		Route: r, Always: spec.Prefix == acmePrefix && !spec.PrefixRegex && !spec.PrefixExact,
	}
	precedence := int64(0)
	if spec.Precedence != nil {
		precedence = *spec.Precedence
	}
	redirect := spec.HostRedirect
	answered := l.derived != nil && l.derived.Status != 0
	if redirect && spec.Shadow {
		l.warn(codeMappingRedirect, "spec.host_redirect", "ignored: the Mapping is a shadow", "remove one of shadow and host_redirect")
		redirect = false
	}
	if redirect {
		r.Redirect = l.redirect(spec)
	} else if !answered {
		l.strayRedirects(spec)
		r.Forward = l.forward(r, spec)
	}
	l.headerChanges(r, spec)
	if spec.CORS != nil {
		r.CORS = l.cors("spec.cors", spec.CORS)
	} else {
		r.CORS = l.set.cors
	}
	l.routeAuth(r, spec)
	l.routeLabels(r, spec)
	l.idleFields(spec)
	if l.failed {
		l.out.Clusters, l.out.Secrets, l.out.EndpointSets = nil, nil, nil
		return
	}
	if r.Forward != nil {
		l.linkerd(r, spec)
	}
	if l.derived != nil {
		l.derive(frag)
	}
	frag.Group = groupKey(pattern, &r.Match, precedence, l.scratch[:0])
	frag.Order = orderKey(pattern, frag.Authority, &r.Match, precedence, l.scratch[:0])
	l.out.Routes = append(l.out.Routes, frag)
}

// acmePrefix is served to insecure requests whatever the Host's policy, as in Emissary.
const acmePrefix = "/.well-known/acme-challenge/"

// weight checks a share in percent.
func (l *lowering) weight(code *snapshot.Code, w *int64) *int {
	if w == nil {
		return nil
	}
	if *w < 0 || *w > 100 {
		l.fail(code, "spec.weight", fmt.Sprintf("%d is no share", *w), "a whole number of 0 to 100")
		return nil
	}
	n := int(*w)
	return &n
}

// forward makes the action that sends the request on.
func (l *lowering) forward(r *ir.Route, spec *api.MappingSpec) *ir.Forward {
	c, hash, svc := l.cluster(upstream{
		service: spec.Service, resolver: spec.Resolver, tls: spec.TLS, hostRewrite: spec.HostRewrite, tag: spec.ClusterTag,
		statsName: spec.StatsName, dnsType: spec.DNSType, respectTTL: spec.RespectDNSTTL, grpc: spec.GRPC,
		ipv4: spec.EnableIPv4, ipv6: spec.EnableIPv6, connect: spec.ConnectTimeout, idle: spec.ClusterIdleTimeout,
		lifetime: spec.ClusterMaxConnectionLifetime, breakers: spec.CircuitBreakers, keepalive: spec.KeepAlive,
		balancer: spec.LoadBalancer, healthChecks: spec.HealthChecks,
	})
	f := &ir.Forward{
		HostRewrite:       spec.HostRewrite,
		TimeoutMillis:     l.millis("spec.timeout_ms", spec.Timeout, l.set.timeout),
		IdleTimeoutMillis: l.optionalMillis("spec.idle_timeout_ms", spec.IdleTimeout, nil),
		Priority:          spec.Priority,
		Retry:             l.set.retry,
		Hash:              hash,
		Upgrades:          l.upgrades(spec),
	}
	l.rewrite(f, r, spec)
	if err := checkHeaderText(spec.HostRewrite); err != nil {
		l.fail(codeMappingValue, "spec.host_rewrite", err.Error(), "a host name")
	}
	if spec.AutoHostRewrite != nil && *spec.AutoHostRewrite {
		if spec.HostRewrite != "" {
			l.warn(codeMappingRewrite, "spec.auto_host_rewrite", "ignored: host_rewrite is set too", "remove one of both")
		} else {
			f.AutoHostRewrite = true
		}
	}
	if spec.Priority != "" && spec.Priority != "default" && spec.Priority != "high" {
		l.fail(codeMappingValue, "spec.priority", "unknown priority \""+spec.Priority+"\"", "default or high")
	}
	if spec.RetryPolicy != nil {
		f.Retry = l.retry("spec.retry_policy", spec.RetryPolicy)
	}
	if c == nil {
		return f
	}
	f.Clusters = []ir.WeightedCluster{{Cluster: c.Name}}
	l.upstreamService = svc
	return f
}

// defaultRewrite is the rewrite of a Mapping that says nothing.
const defaultRewrite = "/"

func (l *lowering) rewrite(f *ir.Forward, r *ir.Route, spec *api.MappingSpec) {
	if spec.RegexRewrite != nil {
		f.RegexRewrite = l.regexMap("spec.regex_rewrite", spec.RegexRewrite)
		if spec.Rewrite != nil && *spec.Rewrite != "" && *spec.Rewrite != defaultRewrite {
			l.warn(codeMappingRewrite, "spec.rewrite", "ignored: regex_rewrite is set too", "remove one of both")
		}
		return
	}
	to := defaultRewrite
	if spec.Rewrite != nil {
		to = *spec.Rewrite
	} else if r.Match.PathKind == ir.PathRegex {
		l.report(snapshot.Info, codeMappingRewrite, "spec.prefix_regex", "the default rewrite replaces the whole path by \"/\", as in Emissary", "write rewrite: \"\" to leave the path as it is")
	}
	if to == "" {
		return
	}
	if err := checkHeaderText(to); err != nil {
		l.fail(codeMappingValue, "spec.rewrite", err.Error(), "a path")
	}
	f.PrefixRewrite = &to
}

// upgrades lists the protocols to upgrade to, each once. The mere presence of use_websocket adds websocket, as in Emissary.
func (l *lowering) upgrades(spec *api.MappingSpec) []string {
	list := spec.AllowUpgrade
	if spec.DeprecatedUseWebsocket != nil {
		list = append(slices.Clip(list), "websocket")
	}
	if len(list) == 0 {
		return nil
	}
	out := make([]string, 0, len(list))
	for i, name := range list {
		if name == "" || checkHeaderText(name) != nil {
			l.fail(codeMappingValue, "spec.allow_upgrade["+strconv.Itoa(i)+"]", fmt.Sprintf("%q is no protocol", name), "such as websocket")
			continue
		}
		if !slices.ContainsFunc(out, func(other string) bool { return strings.EqualFold(other, name) }) {
			out = append(out, name)
		}
	}
	return out
}

// linkerd adds the header that tells Linkerd where the request goes.
func (l *lowering) linkerd(r *ir.Route, spec *api.MappingSpec) {
	on := l.set.linkerd
	if spec.AddLinkerdHeaders != nil {
		on = *spec.AddLinkerdHeaders
	}
	if on {
		header := ir.HeaderValue{Name: "l5d-dst-override", Value: l.upstreamService.hostPort(), Append: true}
		r.RequestHeaders.Add = append(slices.Clip(r.RequestHeaders.Add), header)
	}
}

// redirect makes the action that answers with a redirection to the service's host.
func (l *lowering) redirect(spec *api.MappingSpec) *ir.Redirect {
	svc, err := parseService(spec.Service)
	if err == nil && svc.extra != "" {
		err = errors.New("invalid host: \"" + svc.extra + "\" behind it; paths belong in path_redirect or prefix_redirect")
	}
	if err != nil {
		l.fail(codeClusterService, "spec.service", "spec.service: "+err.Error()+" (in \""+spec.Service+"\")", "write [http://|https://]host[:port]")
		return nil
	}
	out := &ir.Redirect{Scheme: svc.scheme, Host: svc.host, Port: svc.port, Code: 301}
	if strings.IndexByte(svc.host, ':') >= 0 {
		out.Host = "[" + svc.host + "]"
	}
	if code := spec.RedirectResponseCode; code != nil {
		switch *code {
		case 301, 302, 303, 307, 308:
			out.Code = uint32(*code)
		default:
			l.fail(codeMappingValue, "spec.redirect_response_code", fmt.Sprintf("%d is no code of a redirect", *code), "301, 302, 303, 307 or 308")
		}
	}
	loser := func(field, winner string) {
		l.report(snapshot.Error, codeMappingRedirect, "spec."+field, "ignored: "+winner+" is set too", "keep one of both")
	}
	prefix, path := spec.PrefixRedirect, spec.PathRedirect
	switch {
	case path != "":
		out.Path = path
		if prefix != "" {
			loser("prefix_redirect", "path_redirect")
		}
		if spec.RegexRedirect != nil {
			loser("regex_redirect", "path_redirect")
		}
	case prefix != "":
		out.PrefixRewrite = &prefix
		if spec.RegexRedirect != nil {
			loser("regex_redirect", "prefix_redirect")
		}
	case spec.RegexRedirect != nil:
		out.RegexRewrite = l.regexMap("spec.regex_redirect", spec.RegexRedirect)
	}
	if checkHeaderText(path) != nil || checkHeaderText(prefix) != nil {
		l.fail(codeMappingValue, "spec", "a redirect has control characters", "")
	}
	return out
}

// strayRedirects warns of redirect fields without host_redirect.
func (l *lowering) strayRedirects(spec *api.MappingSpec) {
	if spec.PathRedirect == "" && spec.PrefixRedirect == "" && spec.RegexRedirect == nil && spec.RedirectResponseCode == nil {
		return
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"path_redirect", spec.PathRedirect != ""}, {"prefix_redirect", spec.PrefixRedirect != ""},
		{"regex_redirect", spec.RegexRedirect != nil}, {"redirect_response_code", spec.RedirectResponseCode != nil},
	} {
		if f.set {
			l.warn(codeMappingRedirect, "spec."+f.name, "has no effect without host_redirect", "set host_redirect: true")
		}
	}
}

// idleFields warns of fields without effect.
func (l *lowering) idleFields(spec *api.MappingSpec) {
	idle := func(set bool, field, why string) {
		if set {
			l.warn(codeMappingNoEffect, "spec."+field, "accepted, but has no effect"+why, "")
		}
	}
	const never = ", as in Emissary 4"
	idle(spec.Docs != nil, "docs", never)
	idle(len(spec.EnvoyOverride) > 0, "envoy_override", never)
	idle(len(spec.Modules) > 0, "modules", never)
	idle(len(spec.ErrorResponseOverrides) > 0, "error_response_overrides", never)
	idle(spec.BypassErrorResponseOverrides, "bypass_error_response_overrides", never)
	idle(spec.OutlierDetection != "", "outlier_detection", never)
	idle(spec.MethodRegex && spec.Method == "", "method_regex", " without method")
	idle(spec.DeprecatedHostRegex && spec.DeprecatedHost == "", "host_regex", " without host")
	idle(spec.PrefixExact && spec.PrefixRegex, "prefix_exact", ": prefix_regex is set too")
}
