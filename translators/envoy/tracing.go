package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tagv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// tracing builds the tracing of a connection manager, with its collector. Envoy's older place for the collector, the
// bootstrap, would need a restart for each change.
func tracing(t *ir.Tracing, f *faults) *hcmv3.HttpConnectionManager_Tracing {
	out := &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling: percent(t.Client), RandomSampling: percent(t.Random), OverallSampling: percent(t.Overall),
		SpawnUpstreamSpan: wrapperspb.Bool(true),
	}
	provider := &tracev3.Tracing_Http{Name: "envoy.tracers." + t.Driver}
	switch t.Driver {
	case "zipkin":
		version := tracev3.ZipkinConfig_HTTP_JSON
		switch t.EndpointVersion {
		case "", "HTTP_JSON":
		case "HTTP_PROTO":
			version = tracev3.ZipkinConfig_HTTP_PROTO
		default:
			f.add(codeValue, "tracing.provider.collector_endpoint_version", "%q is none of HTTP_JSON, HTTP_PROTO", t.EndpointVersion)
		}
		c := &tracev3.ZipkinConfig{
			CollectorCluster: t.Cluster, CollectorEndpoint: t.Endpoint, CollectorEndpointVersion: version,
			CollectorHostname: t.Hostname, TraceId_128Bit: t.TraceID128Bit,
		}
		if t.SharedSpan != nil {
			c.SharedSpanContext = wrapperspb.Bool(*t.SharedSpan)
		}
		provider.ConfigType = &tracev3.Tracing_Http_TypedConfig{TypedConfig: f.pack("tracing.provider", c)}
	case "datadog":
		provider.ConfigType = &tracev3.Tracing_Http_TypedConfig{TypedConfig: f.pack("tracing.provider",
			&tracev3.DatadogConfig{CollectorCluster: t.Cluster, ServiceName: t.ServiceName, CollectorHostname: t.Hostname})}
	case "opentelemetry":
		provider.ConfigType = &tracev3.Tracing_Http_TypedConfig{TypedConfig: f.pack("tracing.provider", &tracev3.OpenTelemetryConfig{
			ServiceName: t.ServiceName,
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: t.Cluster}}},
		})}
	default:
		f.add(codeValue, "tracing.provider", "%q is none of zipkin, datadog, opentelemetry", t.Driver)
	}
	out.Provider = provider
	for i := range t.Tags {
		if tag := customTag(&t.Tags[i], f); tag != nil {
			out.CustomTags = append(out.CustomTags, tag)
		}
	}
	return out
}

func percent(n *float64) *typev3.Percent {
	if n == nil {
		return nil
	}
	return &typev3.Percent{Value: *n}
}

func customTag(t *ir.TracingTag, f *faults) *tagv3.CustomTag {
	out := &tagv3.CustomTag{Tag: t.Tag}
	switch t.Kind {
	case "literal":
		out.Type = &tagv3.CustomTag_Literal_{Literal: &tagv3.CustomTag_Literal{Value: t.Value}}
	case "environment":
		out.Type = &tagv3.CustomTag_Environment_{Environment: &tagv3.CustomTag_Environment{Name: t.Source, DefaultValue: t.Value}}
	case "request_header":
		out.Type = &tagv3.CustomTag_RequestHeader{RequestHeader: &tagv3.CustomTag_Header{Name: t.Source, DefaultValue: t.Value}}
	default:
		f.add(codeValue, "tracing.custom_tags", "%q is none of literal, environment, request_header", t.Kind)
		return nil
	}
	return out
}
