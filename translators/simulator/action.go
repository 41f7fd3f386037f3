package simulator

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// act makes the outcome of a route that takes a share of the requests. matched is the part of the path that its match covers.
func act(p *ir.Program, h *ir.HTTPChain, route *ir.Route, matched string, taken *drawn, x *exchange) Outcome {
	o := Outcome{
		Share: taken.percent(), Route: route.Name, Match: describeMatch(&route.Match), Origins: route.Origins,
		RequestHeaders: route.RequestHeaders, ResponseHeaders: route.ResponseHeaders,
	}
	if x.upgrade != "" && !allowsUpgrade(route, x.upgrade) {
		o.Kind, o.Status, o.Reason = Intercepted, 403, fmt.Sprintf("the route does not allow the upgrade %q", x.upgrade)
		return o
	}
	if preflight(route, x) {
		o.Kind, o.Status, o.Reason = Intercepted, 200, "the CORS filter answers the preflight"
		return o
	}
	steps, status, reason := filterSteps(p, h, route)
	o.Filters = steps
	if status != 0 {
		o.Kind, o.Status, o.Reason = Intercepted, status, reason
		return o
	}
	switch {
	case route.Redirect != nil:
		o.Kind, o.Status = Redirected, route.Redirect.Code
		if o.Status == 0 {
			o.Status = 301
		}
		o.Location = location(route.Redirect, matched, x)
	case route.Direct != nil:
		o.Kind, o.Status, o.Body = Answered, route.Direct.Status, route.Direct.Body
		if o.Status == 201 || o.Status >= 300 && o.Status < 400 {
			o.Location = location(&ir.Redirect{}, matched, x)
		}
	case route.Forward != nil:
		forward(p, route.Forward, &route.Match, matched, taken, x, &o)
	default:
		o.Kind, o.Status, o.Reason = NotFound, 404, "the route has no action"
	}
	return o
}

func forward(p *ir.Program, f *ir.Forward, m *ir.Match, matched string, taken *drawn, x *exchange, o *Outcome) {
	o.Kind = Forwarded
	o.Path = forwardedPath(f, m, matched, x)
	o.Host = x.authority
	if f.HostRewrite != "" {
		o.Host = f.HostRewrite
	}
	timeout := f.TimeoutMillis
	o.TimeoutMillis, o.Priority = &timeout, f.Priority
	auto := ""
	if f.AutoHostRewrite {
		auto = o.Host
	}
	o.Clusters = clusterShares(p, f.Clusters, taken, auto)
	for _, m := range f.Mirrors {
		share := 100.0
		if m.Fraction != nil && m.Fraction.Denominator > 0 {
			share = min(float64(m.Fraction.Numerator)*100/float64(m.Fraction.Denominator), 100)
		}
		o.Mirrors = append(o.Mirrors, MirrorShare{Name: m.Cluster, Share: share, Origins: m.Origins})
	}
}

// clusterShares divides the taken requests among the clusters. autoHost is the authority that an automatic host rewrite
// replaces, "" for none.
func clusterShares(p *ir.Program, clusters []ir.WeightedCluster, taken *drawn, autoHost string) []ClusterShare {
	weights := make([]uint32, len(clusters))
	for i := range clusters {
		weights[i] = clusters[i].Weight
	}
	shares := taken.split(weights)
	out := make([]ClusterShare, 0, len(clusters))
	for i := range clusters {
		w := &clusters[i]
		s := ClusterShare{Name: w.Cluster, Share: shares[i], RequestHeaders: w.RequestHeaders, ResponseHeaders: w.ResponseHeaders}
		if c := findCluster(p, w.Cluster); c != nil {
			s.Target, s.Origins = target(c), c.Origins
			if autoHost != "" && c.Host != autoHost && (c.Discovery == ir.DiscoveryStrictDNS || c.Discovery == ir.DiscoveryLogicalDNS) {
				s.Host = c.Host
			}
		} else {
			s.Target = "not in the program: Envoy answers 503"
		}
		out = append(out, s)
	}
	return out
}

func findCluster(p *ir.Program, name string) *ir.Cluster {
	for _, c := range p.Clusters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// target says in words where a cluster's endpoints are.
func target(c *ir.Cluster) string {
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	if c.EndpointSet != "" {
		return scheme + " to the endpoints of " + c.EndpointSet
	}
	if c.Host == "" {
		return ""
	}
	return scheme + "://" + net.JoinHostPort(c.Host, strconv.FormatUint(uint64(c.Port), 10))
}

// forwardedPath is the request target that the upstream sees. Taking a prefix off leaves a slash, and one only where the
// match goes by segments (the back end writes that so, since Envoy itself has no way to take a prefix off).
func forwardedPath(f *ir.Forward, m *ir.Match, matched string, x *exchange) string {
	if f.RegexRewrite != nil || f.PrefixRewrite == nil {
		return rewrite(x, matched, nil, f.RegexRewrite)
	}
	if m.PathKind == ir.PathSegments && strings.Trim(m.Path, "/") != "" && strings.Trim(*f.PrefixRewrite, "/") == "" {
		return "/" + strings.TrimLeft(x.path[len(matched):], "/") + x.target[len(x.path):]
	}
	prefix := *f.PrefixRewrite
	if prefix == "" {
		prefix = "/"
	}
	return rewrite(x, matched, &prefix, nil)
}

// rewrite returns the request target after a rewrite. An empty prefix rewrite changes nothing, as in Envoy.
func rewrite(x *exchange, matched string, prefix *string, regex *ir.RegexRewrite) string {
	switch {
	case prefix != nil && *prefix != "":
		return *prefix + x.target[len(matched):]
	case regex != nil:
		return substitute(regex, x.path) + x.target[len(x.path):]
	}
	return x.target
}

// substitute replaces every match of the expression; \0 to \9 stand for groups and \\ for a backslash, as in RE2.
func substitute(r *ir.RegexRewrite, s string) string {
	re, err := regexp.Compile(r.Pattern)
	if err != nil {
		return s
	}
	var template strings.Builder
	for i := 0; i < len(r.Substitution); i++ {
		c := r.Substitution[i]
		switch {
		case c == '$':
			template.WriteString("$$")
		case c == '\\' && i+1 < len(r.Substitution):
			i++
			if d := r.Substitution[i]; d >= '0' && d <= '9' {
				template.WriteString("${" + string(d) + "}")
			} else {
				template.WriteByte(d)
			}
		default:
			template.WriteByte(c)
		}
	}
	return re.ReplaceAllString(s, template.String())
}

// location builds a redirect's Location as Envoy does (Envoy docs: config.route.v3.RedirectAction).
func location(r *ir.Redirect, matched string, x *exchange) string {
	scheme := x.scheme
	switch {
	case r.Scheme != "":
		scheme = r.Scheme
	case r.HTTPS:
		scheme = "https"
	}
	port := ""
	if r.Port != 0 {
		port = ":" + strconv.FormatUint(uint64(r.Port), 10)
	}
	host := r.Host
	if host == "" {
		host = x.authority
		bare, old := splitPort(host)
		from := x.first("x-forwarded-proto")
		standard := strings.EqualFold(from, "https") && old == "443" || strings.EqualFold(from, "http") && old == "80"
		if port != "" || scheme != from && standard {
			host = bare
		}
	}
	var path string
	switch {
	case r.Path != "":
		path = r.Path
		if !strings.Contains(path, "?") {
			if i := strings.IndexByte(x.target, '?'); i >= 0 {
				path += x.target[i:]
			}
		}
	default:
		path = rewrite(x, matched, r.PrefixRewrite, r.RegexRewrite)
	}
	return scheme + "://" + host + port + path
}

func allowsUpgrade(route *ir.Route, upgrade string) bool {
	return route.Forward != nil && slices.ContainsFunc(route.Forward.Upgrades, func(u string) bool { return strings.EqualFold(u, upgrade) })
}

// preflight reports whether the CORS filter answers the request itself; it does so on routes that forward only.
func preflight(route *ir.Route, x *exchange) bool {
	origin := x.first("origin")
	if route.CORS == nil || route.Forward == nil || x.method != "OPTIONS" || origin == "" || x.first("access-control-request-method") == "" {
		return false
	}
	return route.CORS.KeepPreflights || slices.ContainsFunc(route.CORS.Origins, func(o string) bool { return o == "*" || o == origin }) ||
		slices.ContainsFunc(route.CORS.OriginRegex, func(e string) bool { return fullMatch(e, origin) || fullMatch(e, "*") })
}
