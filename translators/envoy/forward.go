package envoy

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// unavailable is the cluster that stands in for a refused member of a split: it has no endpoint, so that exactly this
// member's share of the requests is answered 503. It is served only where something needs it.
const unavailable = "chancery_unavailable"

// routeAction appends the action of a route that forwards, a config.route.v3.RouteAction. present tells which clusters exist; the
// others give way to the unavailable cluster, and mirrors to them are dropped.
func (w *encoding) routeAction(n protowire.Number, to *ir.Forward, m *ir.Match, present func(string) bool, f *faults) {
	at := w.begin(n)
	prefix, expression := rewrite(to, m, f)
	w.text(5, prefix)
	w.timeout(8, "route.timeout", to.TimeoutMillis, f)
	if to.Retry != nil {
		w.message(9, retryPolicy(to.Retry, f))
	}
	switch to.Priority {
	case "", "default":
	case "high":
		w.number(11, uint64(corev3.RoutingPriority_HIGH))
	default:
		f.add(codeValue, "route.priority", "%q is none of default, high", to.Priority)
	}
	for i := range to.Hash {
		w.message(15, hashPolicy(&to.Hash[i], f))
	}
	if to.IdleTimeoutMillis != nil {
		w.timeout(24, "route.idle_timeout", *to.IdleTimeoutMillis, f)
	}
	for _, u := range to.Upgrades {
		w.message(25, &routev3.RouteAction_UpgradeConfig{UpgradeType: u})
	}
	for i := range to.Mirrors {
		if present(to.Mirrors[i].Cluster) {
			w.message(30, mirrorPolicy(&to.Mirrors[i], f))
		}
	}
	if expression != nil {
		w.message(32, expression)
	}
	weights("route.weighted_clusters", to.Clusters, f)
	if len(to.Clusters) == 1 && noChanges(&to.Clusters[0]) {
		cluster := orUnavailable(to.Clusters[0].Cluster, present)
		w.odd = w.odd || cluster == ""
		w.member(1, cluster)
	} else {
		w.message(3, weightedClusters(to.Clusters, present, f))
	}
	switch {
	case to.AutoHostRewrite:
		w.wrapped(7, true)
	case to.HostRewrite != "":
		w.member(6, to.HostRewrite)
	}
	w.end(at)
}

// timeout appends milliseconds to a field in which Envoy takes nothing negative, though its protobuf rules do not say so.
func (w *encoding) timeout(n protowire.Number, path string, ms int64, f *faults) {
	nonNegative(path, ms, f)
	w.millis(n, ms)
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

// rewrite returns the path rewrite, by prefix or by expression. Envoy reads an empty prefix_rewrite as none, so that "" becomes
// "/". Taking a whole segment prefix off would leave "//b" of "/a/b", so that it is done by expression.
func rewrite(to *ir.Forward, m *ir.Match, f *faults) (prefix string, expression *matcherv3.RegexMatchAndSubstitute) {
	switch {
	case to.RegexRewrite != nil && to.PrefixRewrite != nil:
		f.add(codeValue, "route.regex_rewrite", "a route rewrites by prefix or by expression, not by both")
	case to.RegexRewrite != nil:
		return "", regexRewrite("route.regex_rewrite", to.RegexRewrite, f)
	case to.PrefixRewrite == nil:
	case m.PathKind == ir.PathSegments && strings.Trim(m.Path, "/") != "" && strings.Trim(*to.PrefixRewrite, "/") == "":
		flags := ""
		if m.IgnoreCase {
			flags = "(?i)"
		}
		pattern := flags + "^" + regexp.QuoteMeta(strings.TrimRight(m.Path, "/")) + "/*"
		return "", regexRewrite("route.regex_rewrite", &ir.RegexRewrite{Pattern: pattern, Substitution: "/"}, f)
	default:
		return cmp.Or(*to.PrefixRewrite, "/"), nil
	}
	return "", nil
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
	out.RetriableStatusCodes = r.StatusCodes
	if r.BackoffMillis != nil {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: timeout("route.retry_policy.retry_back_off.base_interval", *r.BackoffMillis, f)}
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
	nonNegative(path, ms, f)
	return millis(ms)
}

func nonNegative(path string, ms int64, f *faults) {
	if ms < 0 {
		f.add(codeValue, path, "%d ms is below zero", ms)
	}
}

// millis turns milliseconds into a duration without overflow.
func millis(ms int64) *durationpb.Duration {
	return &durationpb.Duration{Seconds: ms / 1000, Nanos: int32(ms % 1000 * 1e6)}
}

// noChanges reports whether the target writes and removes no header of its own.
func noChanges(t *ir.WeightedCluster) bool {
	return len(t.RequestHeaders.Add)+len(t.RequestHeaders.Remove)+len(t.ResponseHeaders.Add)+len(t.ResponseHeaders.Remove) == 0
}
