package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// healthCheck builds one active health check.
func healthCheck(h *ir.HealthCheck, f *faults) *corev3.HealthCheck {
	out := &corev3.HealthCheck{
		Timeout:            millis(h.TimeoutMillis),
		Interval:           millis(h.IntervalMillis),
		HealthyThreshold:   wrapperspb.UInt32(h.HealthyThreshold),
		UnhealthyThreshold: wrapperspb.UInt32(h.UnhealthyThreshold),
	}
	switch {
	case h.HTTP != nil && h.GRPC == nil:
		out.HealthChecker = &corev3.HealthCheck_HttpHealthCheck_{HttpHealthCheck: httpHealthCheck(h.HTTP, f)}
	case h.GRPC != nil && h.HTTP == nil:
		out.HealthChecker = &corev3.HealthCheck_GrpcHealthCheck_{GrpcHealthCheck: &corev3.HealthCheck_GrpcHealthCheck{
			ServiceName: h.GRPC.Service, Authority: h.GRPC.Authority,
		}}
	default:
		f.add(codeValue, "health_checks.health_checker", "a health check is either of HTTP or of gRPC")
	}
	return out
}

func httpHealthCheck(h *ir.HTTPHealthCheck, f *faults) *corev3.HealthCheck_HttpHealthCheck {
	out := &corev3.HealthCheck_HttpHealthCheck{
		Path: h.Path, Host: h.Host,
		RequestHeadersToAdd:    headersToAdd("request", h.RequestHeaders.Add, f),
		RequestHeadersToRemove: headersToRemove("request", h.RequestHeaders.Remove, f),
	}
	for _, r := range h.ExpectedStatuses {
		out.ExpectedStatuses = append(out.ExpectedStatuses, &typev3.Int64Range{Start: r.From, End: r.To})
	}
	return out
}
