package v3alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/fieldpath"
)

// checker reports faults in the words of the API server's own schema validation.
type checker func(path, message, help string)

// required reports a field that is not there.
func (c checker) required(path string, present bool) {
	if !present {
		c(path, path+" in body is required", "")
	}
}

// enum reports a value that is neither "" nor one of allowed.
func (c checker) enum(path, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		c(path, fmt.Sprintf("%s in body should be one of [%s], found %q", path, strings.Join(allowed, " "), value),
			"use one of "+strings.Join(allowed, ", "))
	}
}

// between reports a number outside low to high, both included.
func (c checker) between(path string, value, low, high int64) {
	switch help := fmt.Sprintf("use a number from %d to %d", low, high); {
	case value < low:
		c(path, fmt.Sprintf("%s in body should be greater than or equal to %d, found %d", path, low, value), help)
	case value > high:
		c(path, fmt.Sprintf("%s in body should be less than or equal to %d, found %d", path, high, value), help)
	}
}

// notEmpty reports a list that is there and has no items.
func (c checker) notEmpty(path string, there bool, length int) {
	if there && length == 0 {
		c(path, path+" in body should have at least 1 items", "leave the field out, or list at least one item")
	}
}

// sorted returns the keys of a map in a fixed order.
func sorted[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func (c checker) circuitBreakers(path string, list []CircuitBreaker) {
	for i, b := range list {
		c.enum(fieldpath.Item(path, i)+".priority", b.Priority, "default", "high")
	}
}

func (c checker) addedHeaders(path string, headers map[string]AddedHeader) {
	for _, name := range sorted(headers) {
		c.enum(fieldpath.Member(path, name)+".v2Representation", headers[name].V2Representation, "string", "null")
	}
}

func (c checker) explicitTLS(path string, t *V2ExplicitTLS) {
	if t == nil {
		return
	}
	c.enum(path+".tls", t.TLS, "null", "bool:true", "bool:false", "string")
	if t.ServiceScheme != nil {
		switch scheme := strings.ToLower(*t.ServiceScheme); scheme {
		case "", "http://", "https://":
		default:
			c(path+".serviceScheme", fmt.Sprintf("%s.serviceScheme in body should match '^([hH][tT][tT][pP][sS]?://)?$', found %q",
				path, *t.ServiceScheme), `use "", "http://" or "https://"`)
		}
	}
}

func (c checker) selector(path string, s *LabelSelector) {
	if s == nil {
		return
	}
	for i, e := range s.MatchExpressions {
		at := fieldpath.Item(path+".matchExpressions", i)
		c.required(at+".key", e.Key != "")
		c.required(at+".operator", e.Operator != "")
	}
}

// Check implements Spec.
func (s *TCPMappingSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.required("spec.port", s.Port != 0)
	c.required("spec.service", s.Service != "")
	c.circuitBreakers("spec.circuit_breakers", s.CircuitBreakers)
	c.explicitTLS("spec.v2ExplicitTLS", s.V2ExplicitTLS)
}

// Check implements Spec.
func (s *HostSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.selector("spec.selector", s.DeprecatedSelector)
	c.selector("spec.mappingSelector", s.MappingSelector)
	if s.RequestPolicy != nil {
		c.enum("spec.requestPolicy.insecure.action", s.RequestPolicy.Insecure.Action, InsecureRedirect, InsecureReject, InsecureRoute)
	}
	if s.PreviewURL != nil {
		c.enum("spec.previewUrl.type", s.PreviewURL.Type, "Path")
	}
}

// Check implements Spec.
func (s *ListenerSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	if s.Port == 0 {
		c.required("spec.port", false)
	} else {
		c.between("spec.port", int64(s.Port), 1, 65535)
	}
	c.enum("spec.protocol", string(s.Protocol), "HTTP", "HTTPS", "HTTPPROXY", "HTTPSPROXY", "TCP", "TLS", "UDP")
	for i, e := range s.ProtocolStack {
		c.enum(fieldpath.Item("spec.protocolStack", i), string(e), "HTTP", "PROXY", "TLS", "TCP", "UDP")
		c.required(fieldpath.Item("spec.protocolStack", i), e != "")
	}
	c.required("spec.securityModel", s.SecurityModel != "")
	c.enum("spec.securityModel", string(s.SecurityModel), "XFP", "SECURE", "INSECURE")
	if s.HTTP2MaxConcurrentStreams != nil && *s.HTTP2MaxConcurrentStreams == 0 {
		c.between("spec.http2MaxConcurrentStreams", 0, 1, 1<<32-1)
	}
	c.required("spec.hostBinding", s.HostBinding != nil)
	if s.HostBinding != nil {
		c.enum("spec.hostBinding.namespace.from", string(s.HostBinding.Namespace.From), "SELF", "ALL", "SELECTOR")
		c.selector("spec.hostBinding.selector", s.HostBinding.Selector)
	}
}

// Check implements Spec.
func (s *TLSContextSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.enum("spec.min_tls_version", s.MinTLSVersion, "v1.0", "v1.1", "v1.2", "v1.3")
	c.enum("spec.max_tls_version", s.MaxTLSVersion, "v1.0", "v1.1", "v1.2", "v1.3")
}

// Check implements Spec.
func (s *ModuleSpec) Check(report func(path, message, help string)) {
	checker(report).required("spec.config", s.Config != nil)
}

// Check implements Spec.
func (s *AuthServiceSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.required("spec.auth_service", s.AuthService != "")
	c.enum("spec.proto", s.Proto, "http", "grpc")
	if b := s.IncludeBody; b != nil {
		c.required("spec.include_body.max_bytes", b.MaxBytes != nil)
		c.required("spec.include_body.allow_partial", b.AllowPartial != nil)
	}
	c.enum("spec.protocol_version", s.ProtocolVersion, "v2", "v3")
	c.circuitBreakers("spec.circuit_breakers", s.CircuitBreakers)
	c.explicitTLS("spec.v2ExplicitTLS", s.V2ExplicitTLS)
}

// Check implements Spec.
func (s *RateLimitServiceSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.required("spec.service", s.Service != "")
	c.enum("spec.protocol_version", s.ProtocolVersion, "v2", "v3")
	c.explicitTLS("spec.v2ExplicitTLS", s.V2ExplicitTLS)
}

// Check implements Spec.
func (s *LogServiceSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.enum("spec.protocol_version", s.ProtocolVersion, "v2", "v3")
	c.enum("spec.driver", s.Driver, "tcp", "http")
}

// Check implements Spec.
func (s *TracingServiceSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.required("spec.driver", s.Driver != "")
	c.enum("spec.driver", s.Driver, "lightstep", "zipkin", "datadog", "opentelemetry")
	c.required("spec.service", s.Service != "")
	for i, t := range s.CustomTags {
		at := fieldpath.Item("spec.custom_tags", i)
		c.required(at+".tag", t.Tag != "")
		if t.Literal != nil {
			c.required(at+".literal.value", t.Literal.Value != "")
		}
		if t.Environment != nil {
			c.required(at+".environment.name", t.Environment.Name != "")
		}
		if t.RequestHeader != nil {
			c.required(at+".request_header.name", t.RequestHeader.Name != "")
		}
	}
	if s.Config != nil {
		c.enum("spec.config.collector_endpoint_version", s.Config.CollectorEndpointVersion, "HTTP_JSON_V1", "HTTP_JSON", "HTTP_PROTO")
		for i, m := range s.Config.PropagationModes {
			c.enum(fieldpath.Item("spec.config.propagation_modes", i), string(m), "ENVOY", "LIGHTSTEP", "B3", "TRACE_CONTEXT")
		}
	}
}

// Check implements Spec; the CRD has no rules.
func (s *KubernetesServiceResolverSpec) Check(report func(path, message, help string)) {}

// Check implements Spec; the CRD has no rules.
func (s *KubernetesEndpointResolverSpec) Check(report func(path, message, help string)) {}

// Check implements Spec; the CRD has no rules.
func (s *ConsulResolverSpec) Check(report func(path, message, help string)) {}

// Check implements Spec.
func (s *DevPortalSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.enum("spec.naming_scheme", s.NamingScheme, "namespace.name", "name.prefix")
	if s.Search != nil {
		c.enum("spec.search.type", s.Search.Type, "title-only", "all-content")
	}
}
