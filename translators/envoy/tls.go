package envoy

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/chancery-gateway/chancery/translators/ir"
)

// overADS is the configuration source of everything that comes over the one ADS stream.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// ads is overADS for messages that are marshalled and thrown away.
var ads = overADS()

func sdsSecret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: ads}
}

var tlsVersions = map[string]tlsv3.TlsParameters_TlsProtocol{
	"":    tlsv3.TlsParameters_TLS_AUTO,
	"1.0": tlsv3.TlsParameters_TLSv1_0,
	"1.1": tlsv3.TlsParameters_TLSv1_1,
	"1.2": tlsv3.TlsParameters_TLSv1_2,
	"1.3": tlsv3.TlsParameters_TLSv1_3,
}

// tlsParameters builds the settings that both directions share; nil when all are Envoy's defaults.
func tlsParameters(p *ir.TLSParams, f *faults) *tlsv3.TlsParameters {
	lowest, known := tlsVersions[p.MinVersion]
	if !known {
		f.add(codeValue, "tls_params.tls_minimum_protocol_version", "%q is none of 1.0, 1.1, 1.2, 1.3", p.MinVersion)
	}
	highest, known := tlsVersions[p.MaxVersion]
	if !known {
		f.add(codeValue, "tls_params.tls_maximum_protocol_version", "%q is none of 1.0, 1.1, 1.2, 1.3", p.MaxVersion)
	}
	tlsRange("tls_params", lowest, highest, f)
	if lowest == 0 && highest == 0 && len(p.CipherSuites) == 0 && len(p.Curves) == 0 {
		return nil
	}
	return &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: lowest, TlsMaximumProtocolVersion: highest,
		CipherSuites: p.CipherSuites, EcdhCurves: p.Curves,
	}
}

// tlsRange refuses a minimum above the maximum. Where none is set, Envoy's minimum is 1.2 (Envoy docs: TlsParameters).
func tlsRange(path string, lowest, highest tlsv3.TlsParameters_TlsProtocol, f *faults) {
	if lowest == tlsv3.TlsParameters_TLS_AUTO {
		lowest = tlsv3.TlsParameters_TLSv1_2
	}
	if highest != tlsv3.TlsParameters_TLS_AUTO && lowest > highest {
		f.add(codeTLSVersions, path, "the minimum %s is above the maximum %s", tlsNames[lowest], tlsNames[highest])
	}
}

var tlsNames = map[tlsv3.TlsParameters_TlsProtocol]string{
	tlsv3.TlsParameters_TLSv1_0: "1.0", tlsv3.TlsParameters_TLSv1_1: "1.1", tlsv3.TlsParameters_TLSv1_2: "1.2", tlsv3.TlsParameters_TLSv1_3: "1.3",
}

// downstreamTLS builds the transport socket that terminates TLS; over QUIC it is the same context in another wrapper.
func downstreamTLS(t *ir.DownstreamTLS, quic bool, f *faults) *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{TlsParams: tlsParameters(&t.Params, f), AlpnProtocols: t.Params.ALPN}
	for _, c := range t.Certificates {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, sdsSecret(c))
	}
	if len(t.Certificates) == 0 {
		f.add(codeMissing, "transport_socket.common_tls_context", "no certificate is named")
	}
	switch {
	case t.Validation != "" && t.AcceptUntrusted:
		common.ValidationContextType = combinedValidation(&tlsv3.CertificateValidationContext{TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED}, t.Validation)
	case t.Validation != "":
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: sdsSecret(t.Validation)}
	}
	context := &tlsv3.DownstreamTlsContext{CommonTlsContext: common}
	if t.RequireClientCertificate {
		context.RequireClientCertificate = wrapperspb.Bool(true)
	}
	if quic {
		return socket("envoy.transport_sockets.quic", f.pack("transport_socket", &quicv3.QuicDownstreamTransport{DownstreamTlsContext: context}))
	}
	return socket("envoy.transport_sockets.tls", f.pack("transport_socket", context))
}

// upstreamTLS builds the transport socket that originates TLS.
func upstreamTLS(t *ir.UpstreamTLS, f *faults) *corev3.TransportSocket {
	common := &tlsv3.CommonTlsContext{TlsParams: tlsParameters(&t.Params, f), AlpnProtocols: t.Params.ALPN}
	if t.Certificate != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{sdsSecret(t.Certificate)}
	}
	switch {
	case t.Validation == "" && len(t.VerifySAN) > 0:
		f.add(codeValue, "transport_socket.common_tls_context", "names of the server's certificate can be verified with trust anchors only")
	case len(t.VerifySAN) > 0:
		rules := &tlsv3.CertificateValidationContext{}
		for _, n := range t.VerifySAN {
			kind := tlsv3.SubjectAltNameMatcher_DNS
			if strings.Contains(n, ":") { // no DNS name has one, every URI does
				kind = tlsv3.SubjectAltNameMatcher_URI
			}
			rules.MatchTypedSubjectAltNames = append(rules.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: kind,
				Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: n}},
			})
		}
		common.ValidationContextType = combinedValidation(rules, t.Validation)
	case t.Validation != "":
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: sdsSecret(t.Validation)}
	}
	return socket("envoy.transport_sockets.tls", f.pack("transport_socket", &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.SNI}))
}

// combinedValidation adds rules to the trust anchors of a secret.
func combinedValidation(rules *tlsv3.CertificateValidationContext, secret string) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: rules, ValidationContextSdsSecretConfig: sdsSecret(secret),
		}}
}

func socket(name string, config *anypb.Any) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config}}
}
