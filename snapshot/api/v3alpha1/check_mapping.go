package v3alpha1

import (
	"fmt"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/fieldpath"
)

// Check implements Spec.
func (s *MappingSpec) Check(report func(path, message, help string)) {
	c := checker(report)
	c.required("spec.prefix", s.Prefix != "")
	c.required("spec.service", s.Service != "")
	c.addedHeaders("spec.add_request_headers", s.AddRequestHeaders)
	c.addedHeaders("spec.add_response_headers", s.AddResponseHeaders)
	c.circuitBreakers("spec.circuit_breakers", s.CircuitBreakers)
	if s.RetryPolicy != nil {
		c.enum("spec.retry_policy.retry_on", s.RetryPolicy.RetryOn,
			"5xx", "gateway-error", "connect-failure", "retriable-4xx", "refused-stream", "retriable-status-codes")
	}
	if r := s.RedirectResponseCode; r != nil {
		switch *r {
		case 301, 302, 303, 307, 308:
		default:
			c("spec.redirect_response_code", fmt.Sprintf("spec.redirect_response_code in body should be one of [301 302 303 307 308], found %d", *r),
				"use one of 301, 302, 303, 307, 308")
		}
	}
	c.notEmpty("spec.health_checks", s.HealthChecks != nil, len(s.HealthChecks))
	for i := range s.HealthChecks {
		c.healthCheck(fieldpath.Item("spec.health_checks", i), &s.HealthChecks[i])
	}
	c.notEmpty("spec.error_response_overrides", s.ErrorResponseOverrides != nil, len(s.ErrorResponseOverrides))
	for i, o := range s.ErrorResponseOverrides {
		at := fieldpath.Item("spec.error_response_overrides", i)
		if o.OnStatusCode == 0 {
			c.required(at+".on_status_code", false)
		} else {
			c.between(at+".on_status_code", o.OnStatusCode, 400, 599)
		}
		c.required(at+".body", o.Body != nil)
		if o.Body != nil && o.Body.TextFormatSource != nil {
			c.required(at+".body.text_format_source.filename", o.Body.TextFormatSource.Filename != "")
		}
	}
	c.labels("spec.labels", s.Labels)
	if lb := s.LoadBalancer; lb != nil {
		c.required("spec.load_balancer.policy", lb.Policy != "")
		c.enum("spec.load_balancer.policy", lb.Policy, "round_robin", "ring_hash", "maglev", "least_request")
		if lb.Cookie != nil {
			c.required("spec.load_balancer.cookie.name", lb.Cookie.Name != "")
		}
	}
	c.explicitTLS("spec.v2ExplicitTLS", s.V2ExplicitTLS)
}

func (c checker) healthCheck(path string, h *HealthCheck) {
	http, grpc := h.HealthCheck.HTTP, h.HealthCheck.GRPC
	path += ".health_check"
	c.exactlyOne(path, "http, grpc", http != nil, grpc != nil)
	if http != nil {
		c.required(path+".http.path", http.Path != "")
		c.addedHeaders(path+".http.add_request_headers", http.AddRequestHeaders)
		for i, r := range http.ExpectedStatuses {
			at := fieldpath.Item(path+".http.expected_statuses", i)
			c.between(at+".min", r.Min, 100, 599)
			c.between(at+".max", r.Max, 100, 599)
		}
	}
	if grpc != nil {
		c.required(path+".grpc.upstream_name", grpc.UpstreamName != "")
	}
}

// exactlyOne reports a union that has no member or more than one. names lists the members.
func (c checker) exactlyOne(path, names string, present ...bool) {
	n := 0
	for _, p := range present {
		if p {
			n++
		}
	}
	if n != 1 {
		c(path, fmt.Sprintf("%s in body should have exactly 1 property, found %d", path, n), "set exactly one of "+names)
	}
}

func (c checker) labels(path string, domains DomainMap) {
	for _, domain := range sorted(domains) {
		for i, group := range domains[domain] {
			at := fieldpath.Item(fieldpath.Member(path, domain), i)
			if len(group) != 1 {
				c(at, fmt.Sprintf("%s in body should have exactly 1 property, found %d", at, len(group)), "give each group of labels its own list item")
			}
			for _, name := range sorted(group) {
				for j := range group[name] {
					c.label(fieldpath.Item(fieldpath.Member(at, name), j), &group[name][j])
				}
			}
		}
	}
}

func (c checker) label(path string, l *MappingLabelSpecifier) {
	c.exactlyOne(path, "source_cluster, destination_cluster, request_headers, remote_address, generic_key", l.SourceCluster != nil,
		l.DestinationCluster != nil, l.RequestHeaders != nil, l.RemoteAddress != nil, l.GenericKey != nil, l.V2Unrecognized != nil)
	fixed := func(name string, f *MappingLabelFixed) {
		if f != nil {
			at := path + "." + name + ".key"
			c.required(at, f.Key != "")
			c.enum(at, f.Key, name)
		}
	}
	fixed("source_cluster", l.SourceCluster)
	fixed("destination_cluster", l.DestinationCluster)
	if h := l.RequestHeaders; h != nil {
		c.required(path+".request_headers.key", h.Key != "")
		c.required(path+".request_headers.header_name", h.HeaderName != "")
	}
	fixed("remote_address", l.RemoteAddress)
	if g := l.GenericKey; g != nil {
		c.required(path+".generic_key.value", g.Value != "")
	}
}
