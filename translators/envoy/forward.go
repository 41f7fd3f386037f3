package envoy

import (
	"regexp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// unavailable is the cluster that stands in for a refused member of a split: it has no endpoint, so that exactly this
// member's share of the requests is answered 503. It is served only where something needs it.
const unavailable = "chancery_unavailable"

// routeAction builds the action of a route that forwards. present tells which clusters exist; the others give way to
// the unavailable cluster, and mirrors to them are dropped.
func routeAction(w *ir.Forward, m *ir.Match, present func(string) bool, f *faults) *routev3.RouteAction {
	out := &routev3.RouteAction{Timeout: timeout("route.timeout", w.TimeoutMillis, f)}
	weights("route.weighted_clusters", w.Clusters, f)
	if len(w.Clusters) == 1 && noChanges(&w.Clusters[0]) {
		out.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: orUnavailable(w.Clusters[0].Cluster, present)}
	} else {
		out.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weightedClusters(w.Clusters, present, f)}
	}
	rewrite(out, w, m, f)
	switch {
	case w.AutoHostRewrite:
		out.HostRewriteSpecifier = &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)}
	case w.HostRewrite != "":
		out.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: w.HostRewrite}
	}
	if w.IdleTimeoutMillis != nil {
		out.IdleTimeout = timeout("route.idle_timeout", *w.IdleTimeoutMillis, f)
	}
	if w.Retry != nil {
		out.RetryPolicy = retryPolicy(w.Retry, f)
	}
	switch w.Priority {
	case "", "default":
	case "high":
		out.Priority = corev3.RoutingPriority_HIGH
	default:
		f.add(codeValue, "route.priority", "%q is none of default, high", w.Priority)
	}
	for _, u := range w.Upgrades {
		out.UpgradeConfigs = append(out.UpgradeConfigs, &routev3.RouteAction_UpgradeConfig{UpgradeType: u})
	}
	for i := range w.Mirrors {
		if present(w.Mirrors[i].Cluster) {
			out.RequestMirrorPolicies = append(out.RequestMirrorPolicies, mirrorPolicy(&w.Mirrors[i], f))
		}
	}
	for i := range w.Hash {
		out.HashPolicy = append(out.HashPolicy, hashPolicy(&w.Hash[i], f))
	}
	return out
}

func orUnavailable(cluster string, present func(string) bool) string {
	if present(cluster) {
		return cluster
	}
	return unavailable
}

func weightedClusters(targets []ir.WeightedCluster, present func(string) bool, f *faults) *routev3.WeightedCluster {
	out := &routev3.WeightedCluster{}
	for i := range targets {
		t := &targets[i]
		weight := t.Weight
		if len(targets) == 1 {
			weight = 1
		}
		out.Clusters = append(out.Clusters, &routev3.WeightedCluster_ClusterWeight{
			Name:                    orUnavailable(t.Cluster, present),
			Weight:                  wrapperspb.UInt32(weight),
			RequestHeadersToAdd:     headersToAdd("request", t.RequestHeaders.Add, f),
			RequestHeadersToRemove:  headersToRemove("request", t.RequestHeaders.Remove, f),
			ResponseHeadersToAdd:    headersToAdd("response", t.ResponseHeaders.Add, f),
			ResponseHeadersToRemove: headersToRemove("response", t.ResponseHeaders.Remove, f),
		})
	}
	return out
}

// rewrite sets the path rewrite. Envoy reads an empty prefix_rewrite as none, so that "" becomes "/". Taking a whole
// segment prefix off would leave "//b" of "/a/b", so that it is done by expression.
func rewrite(out *routev3.RouteAction, w *ir.Forward, m *ir.Match, f *faults) {
	switch {
	case w.RegexRewrite != nil && w.PrefixRewrite != nil:
		f.add(codeValue, "route.regex_rewrite", "a route rewrites by prefix or by expression, not by both")
	case w.RegexRewrite != nil:
		out.RegexRewrite = regexRewrite("route.regex_rewrite", w.RegexRewrite, f)
	case w.PrefixRewrite == nil:
	case m.PathKind == ir.PathSegments && strings.Trim(m.Path, "/") != "" && strings.Trim(*w.PrefixRewrite, "/") == "":
		flags := ""
		if m.IgnoreCase {
			flags = "(?i)"
		}
		pattern := flags + "^" + regexp.QuoteMeta(strings.TrimRight(m.Path, "/")) + "/*"
		out.RegexRewrite = regexRewrite("route.regex_rewrite", &ir.RegexRewrite{Pattern: pattern, Substitution: "/"}, f)
	case *w.PrefixRewrite == "":
		out.PrefixRewrite = "/"
	default:
		out.PrefixRewrite = *w.PrefixRewrite
	}
}

func retryPolicy(r *ir.RetryPolicy, f *faults) *routev3.RetryPolicy {
	retryOn("route.retry_policy.retry_on", r.On, f)
	out := &routev3.RetryPolicy{RetryOn: r.On}
	if r.NumRetries != nil {
		out.NumRetries = wrapperspb.UInt32(*r.NumRetries)
	}
	if r.PerTryTimeoutMillis != nil {
		out.PerTryTimeout = timeout("route.retry_policy.per_try_timeout", *r.PerTryTimeoutMillis, f)
	}
	return out
}

func mirrorPolicy(m *ir.Mirror, f *faults) *routev3.RouteAction_RequestMirrorPolicy {
	out := &routev3.RouteAction_RequestMirrorPolicy{Cluster: m.Cluster}
	if m.Fraction != nil {
		out.RuntimeFraction = runtimeFraction("route.request_mirror_policies.runtime_fraction", m.Fraction, f)
	}
	return out
}

func hashPolicy(h *ir.HashPolicy, f *faults) *routev3.RouteAction_HashPolicy {
	out := &routev3.RouteAction_HashPolicy{}
	switch {
	case h.Cookie != nil:
		c := &routev3.RouteAction_HashPolicy_Cookie{Name: h.Cookie.Name, Path: h.Cookie.Path}
		if h.Cookie.TTLSeconds != nil {
			c.Ttl = durationpb.New(time.Duration(*h.Cookie.TTLSeconds) * time.Second)
		}
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{Cookie: c}
	case h.Header != "":
		if !token(h.Header) {
			f.add(codeHeaderName, "route.hash_policy", "%q is no header name", h.Header)
		}
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: h.Header}}
	case h.SourceIP:
		out.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true}}
	default:
		f.add(codeValue, "route.hash_policy", "it names neither cookie nor header nor source address")
	}
	return out
}

// timeout is millis for fields in which Envoy takes nothing negative, though its protobuf rules do not say so.
func timeout(path string, ms int64, f *faults) *durationpb.Duration {
	if ms < 0 {
		f.add(codeValue, path, "%d ms is below zero", ms)
	}
	return millis(ms)
}

// millis turns milliseconds into a duration without overflow.
func millis(ms int64) *durationpb.Duration {
	return &durationpb.Duration{Seconds: ms / 1000, Nanos: int32(ms % 1000 * 1e6)}
}

// noChanges reports whether the target writes and removes no header of its own.
func noChanges(t *ir.WeightedCluster) bool {
	return len(t.RequestHeaders.Add)+len(t.RequestHeaders.Remove)+len(t.ResponseHeaders.Add)+len(t.ResponseHeaders.Remove) == 0
}
