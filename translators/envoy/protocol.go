package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	preservev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// protocolOptions builds the typed HTTP options of a cluster; nil when all are Envoy's defaults.
func protocolOptions(c *ir.Cluster, f *faults) *anypb.Any {
	if !c.HTTP2 && c.IdleTimeoutMillis == nil && c.MaxConnectionMillis == nil && len(c.HeaderCase) == 0 {
		return nil
	}
	out := &upstreamv3.HttpProtocolOptions{}
	if c.IdleTimeoutMillis != nil || c.MaxConnectionMillis != nil {
		common := &corev3.HttpProtocolOptions{}
		if c.IdleTimeoutMillis != nil {
			common.IdleTimeout = timeout("typed_extension_protocol_options.common_http_protocol_options.idle_timeout", *c.IdleTimeoutMillis, f)
		}
		if c.MaxConnectionMillis != nil {
			common.MaxConnectionDuration = timeout("typed_extension_protocol_options.common_http_protocol_options.max_connection_duration", *c.MaxConnectionMillis, f)
		}
		out.CommonHttpProtocolOptions = common
	}
	explicit := &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig{}
	if c.HTTP2 {
		explicit.ProtocolConfig = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}}
	} else {
		http1 := &corev3.Http1ProtocolOptions{}
		if len(c.HeaderCase) > 0 {
			http1.HeaderKeyFormat = preserveCase(f)
		}
		explicit.ProtocolConfig = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: http1}
	}
	out.UpstreamProtocolOptions = &upstreamv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit}
	return f.pack("typed_extension_protocol_options", out)
}

// preserveCase keeps header spellings as the peer wrote them. Envoy has no list of chosen spellings.
func preserveCase(f *faults) *corev3.Http1ProtocolOptions_HeaderKeyFormat {
	return &corev3.Http1ProtocolOptions_HeaderKeyFormat{HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
		StatefulFormatter: &corev3.TypedExtensionConfig{
			Name: "preserve_case", TypedConfig: f.pack("header_key_format", &preservev3.PreserveCaseFormatterConfig{}),
		}}}
}
