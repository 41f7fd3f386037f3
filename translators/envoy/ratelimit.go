package envoy

import (
	configv3 "github.com/envoyproxy/go-control-plane/envoy/config/ratelimit/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// rateLimit builds the filter that asks a service about requests with descriptors. Without a service, it asks the
// unavailable cluster, so that FailureModeDeny decides.
func rateLimit(c *ir.RateLimit, present func(string) bool) *ratelimitv3.RateLimit {
	return &ratelimitv3.RateLimit{
		Domain:                         c.Domain,
		RequestType:                    "both",
		Timeout:                        millis(c.TimeoutMillis),
		FailureModeDeny:                c.FailureModeDeny,
		RateLimitedAsResourceExhausted: c.ResourceExhausted,
		RateLimitService: &configv3.RateLimitServiceConfig{
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: orUnavailable(c.Cluster, present)}}},
		},
	}
}

// rateLimitRoute builds a route's descriptors.
func rateLimitRoute(c *ir.RateLimitRoute, f *faults) *ratelimitv3.RateLimitPerRoute {
	out := &ratelimitv3.RateLimitPerRoute{}
	for i := range c.Descriptors {
		d := &routev3.RateLimit{}
		for j := range c.Descriptors[i].Actions {
			if a := rateLimitAction(&c.Descriptors[i].Actions[j], f); a != nil {
				d.Actions = append(d.Actions, a)
			}
		}
		out.RateLimits = append(out.RateLimits, d)
	}
	return out
}

func rateLimitAction(a *ir.RateLimitAction, f *faults) *routev3.RateLimit_Action {
	switch a.Kind {
	case ir.RateLimitSourceCluster:
		return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_SourceCluster_{SourceCluster: &routev3.RateLimit_Action_SourceCluster{}}}
	case ir.RateLimitDestinationCluster:
		return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_DestinationCluster_{DestinationCluster: &routev3.RateLimit_Action_DestinationCluster{}}}
	case ir.RateLimitRemoteAddress:
		return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_RemoteAddress_{RemoteAddress: &routev3.RateLimit_Action_RemoteAddress{}}}
	case ir.RateLimitGeneric:
		return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_GenericKey_{
			GenericKey: &routev3.RateLimit_Action_GenericKey{DescriptorKey: a.Key, DescriptorValue: a.Value}}}
	case ir.RateLimitHeader:
		return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_RequestHeaders_{
			RequestHeaders: &routev3.RateLimit_Action_RequestHeaders{HeaderName: a.Header, DescriptorKey: a.Key, SkipIfAbsent: a.Optional}}}
	}
	f.add(codeValue, "rate_limits.actions", "%q is none of source_cluster, destination_cluster, remote_address, generic_key, request_header", a.Kind)
	return nil
}
