package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

const httpManagerName = "envoy.filters.network.http_connection_manager"

// httpManager builds the network filter that serves HTTP by a route configuration over RDS. present tells which clusters exist.
func httpManager(c *ir.HTTPChain, quic bool, present func(string) bool, f *faults) *listenerv3.Filter {
	s := c.Settings
	if s == nil {
		s = &ir.HTTPSettings{}
	}
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: c.StatPrefix,
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource: ads, RouteConfigName: c.RouteConfig,
		}},
		HttpFilters:               httpFilters(c.Filters, s, present, f),
		UseRemoteAddress:          wrapperspb.Bool(s.UseRemoteAddress),
		XffNumTrustedHops:         c.TrustedHops,
		NormalizePath:             wrapperspb.Bool(true),
		MergeSlashes:              s.MergeSlashes,
		ServerName:                s.ServerName,
		StripMatchingHostPort:     s.StripMatchingHostPort,
		PreserveExternalRequestId: s.PreserveExternalRequestID,
		CommonHttpProtocolOptions: commonOptions(s, f),
		HttpProtocolOptions:       http1Options(s, f),
	}
	if s.RejectEscapedSlashes {
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_REJECT_REQUEST
	}
	if s.MaxRequestHeadersKB != 0 {
		m.MaxRequestHeadersKb = wrapperspb.UInt32(s.MaxRequestHeadersKB)
	}
	if c.MaxConcurrentStreams != 0 {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{MaxConcurrentStreams: wrapperspb.UInt32(c.MaxConcurrentStreams)}
	}
	if quic {
		m.CodecType = hcmv3.HttpConnectionManager_HTTP3
		m.Http3ProtocolOptions = &corev3.Http3ProtocolOptions{}
	}
	clientCertificates(m, s, f)
	m.AccessLog = append(accessLogs(c.AccessLogs, present, f), accessLogs(s.AccessLogs, present, f)...)
	m.LocalReplyConfig = closedReply(c.Filters, present)
	if t := c.Tracing; t != nil && present(t.Cluster) {
		m.Tracing = tracing(t, f)
	}
	return &listenerv3.Filter{Name: httpManagerName, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.pack("http_connection_manager", m)}}
}

// commonOptions returns nil when all are Envoy's defaults.
func commonOptions(s *ir.HTTPSettings, f *faults) *corev3.HttpProtocolOptions {
	out := &corev3.HttpProtocolOptions{}
	if s.IdleTimeoutMillis != nil {
		out.IdleTimeout = timeout("common_http_protocol_options.idle_timeout", *s.IdleTimeoutMillis, f)
	}
	if a := s.HeadersWithUnderscoresAction; a != "" {
		v, known := corev3.HttpProtocolOptions_HeadersWithUnderscoresAction_value[a]
		if !known {
			f.add(codeValue, "common_http_protocol_options.headers_with_underscores_action", "%q is none of ALLOW, REJECT_REQUEST, DROP_HEADER", a)
		}
		out.HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_HeadersWithUnderscoresAction(v)
	}
	if out.IdleTimeout == nil && out.HeadersWithUnderscoresAction == 0 {
		return nil
	}
	return out
}

// http1Options returns nil when all are Envoy's defaults. Proper case wins over overrides, as in Emissary.
func http1Options(s *ir.HTTPSettings, f *faults) *corev3.Http1ProtocolOptions {
	if !s.AcceptHTTP10 && !s.AllowChunkedLength && !s.ProperCase && len(s.HeaderCaseOverrides) == 0 {
		return nil
	}
	out := &corev3.Http1ProtocolOptions{AcceptHttp_10: s.AcceptHTTP10, AllowChunkedLength: s.AllowChunkedLength}
	switch {
	case s.ProperCase:
		out.HeaderKeyFormat = &corev3.Http1ProtocolOptions_HeaderKeyFormat{HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_ProperCaseWords_{
			ProperCaseWords: &corev3.Http1ProtocolOptions_HeaderKeyFormat_ProperCaseWords{}}}
	case len(s.HeaderCaseOverrides) > 0:
		out.HeaderKeyFormat = preserveCase(f)
	}
	return out
}

func clientCertificates(m *hcmv3.HttpConnectionManager, s *ir.HTTPSettings, f *faults) {
	if a := s.ForwardClientCertDetails; a != "" {
		v, known := hcmv3.HttpConnectionManager_ForwardClientCertDetails_value[a]
		if !known {
			f.add(codeValue, "forward_client_cert_details", "%q is none of SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET, ALWAYS_FORWARD_ONLY", a)
		}
		m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ForwardClientCertDetails(v)
	}
	if len(s.SetCurrentClientCertDetails) == 0 {
		return
	}
	d := &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{}
	for _, key := range s.SetCurrentClientCertDetails {
		switch key {
		case "subject":
			d.Subject = wrapperspb.Bool(true)
		case "cert":
			d.Cert = true
		case "chain":
			d.Chain = true
		case "dns":
			d.Dns = true
		case "uri":
			d.Uri = true
		default:
			f.add(codeValue, "set_current_client_cert_details", "%q is none of subject, cert, chain, dns, uri", key)
		}
	}
	m.SetCurrentClientCertDetails = d
}
