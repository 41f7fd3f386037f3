package emissary

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// logService checks a LogService and brings its cluster; the logs themselves are in the listeners.
func (l *lowering) logService(spec *api.LogServiceSpec) {
	if l.onlyOne(api.KindLogService) {
		l.serviceLog(spec)
	}
}

// accessLogs returns the log that goes to the LogService; none where there is no usable one.
func (l *lowering) accessLogs() []ir.AccessLog {
	o := l.f.first(l.v, api.KindLogService)
	if o == nil {
		return nil
	}
	if log := l.aside(o).serviceLog(o.Spec.(*api.LogServiceSpec)); log != nil {
		log.Origins = []ir.Origin{o.Ref}
		return []ir.AccessLog{*log}
	}
	return nil
}

// tcpAccessLogs returns the log of TCP connections that goes to the LogService.
func (l *lowering) tcpAccessLogs() []ir.AccessLog {
	return slices.DeleteFunc(l.accessLogs(), func(a ir.AccessLog) bool { return a.Type != "grpc_tcp" })
}

func (l *lowering) serviceLog(spec *api.LogServiceSpec) *ir.AccessLog {
	out := &ir.AccessLog{LogName: l.o.Name, FlushMillis: 1000, FlushBytes: 16384}
	switch spec.Driver {
	case "http":
		out.Type = "grpc_http"
	case "tcp":
		out.Type = "grpc_tcp"
	default:
		l.fail(codeServiceValue, "spec.driver", fmt.Sprintf("unknown driver %q", spec.Driver), "http or tcp")
	}
	l.speaksV3(spec.ProtocolVersion)
	if s := spec.FlushIntervalTime; s != nil {
		if *s < 1 || *s > maxMillis/1000 {
			l.fail(codeServiceValue, "spec.flush_interval_time", fmt.Sprintf("%d is no time span", *s), "a number of seconds, 1 or more")
		}
		out.FlushMillis = int64(*s) * 1000
	}
	if n := spec.FlushIntervalByteSize; n != nil {
		if *n < 1 || *n > math.MaxUint32 {
			l.fail(codeServiceValue, "spec.flush_interval_byte_size", fmt.Sprintf("%d is no size", *n), "1 to 4294967295")
		}
		out.FlushBytes = uint32(*n)
	}
	if spec.DriverConfig != nil {
		l.loggedHeaders(out, spec.DriverConfig.AdditionalLogHeaders)
	}
	c, _ := l.ownCluster(upstream{service: spec.Service, grpc: true, statsName: spec.StatsName})
	if c == nil {
		return nil
	}
	out.Cluster = c.Name
	return out
}

// loggedHeaders notes the headers to log; each is logged of requests, answers and trailers unless it says otherwise.
func (l *lowering) loggedHeaders(out *ir.AccessLog, list []api.AdditionalLogHeaders) {
	if out.Type == "grpc_tcp" {
		if len(list) > 0 {
			l.warn(codeServiceNoEffect, "spec.driver_config.additional_log_headers", "accepted, but has no effect with driver: tcp", "")
		}
		return
	}
	for i, h := range list {
		if err := checkToken(h.HeaderName); err != nil {
			l.report(snapshot.Error, codeServiceValue, fmt.Sprintf("spec.driver_config.additional_log_headers[%d].header_name", i), err.Error(), "")
			continue
		}
		name := strings.ToLower(h.HeaderName)
		on := func(b *bool) bool { return b == nil || *b }
		if on(h.DuringRequest) {
			out.RequestHeaders = append(out.RequestHeaders, name)
		}
		if on(h.DuringResponse) {
			out.ResponseHeaders = append(out.ResponseHeaders, name)
		}
		if on(h.DuringTrailer) {
			out.Trailers = append(out.Trailers, name)
		}
	}
}

// tracingService checks a TracingService and brings its cluster; the tracing itself is in the listeners.
func (l *lowering) tracingService(spec *api.TracingServiceSpec) {
	if l.onlyOne(api.KindTracingService) {
		l.tracing(spec)
	}
}

// tracer returns how the listeners' requests are traced; nil where there is no usable TracingService.
func (l *lowering) tracer() *ir.Tracing {
	o := l.f.first(l.v, api.KindTracingService)
	if o == nil {
		return nil
	}
	return l.aside(o).tracing(o.Spec.(*api.TracingServiceSpec))
}

func (l *lowering) tracing(spec *api.TracingServiceSpec) *ir.Tracing {
	config := spec.Config
	if config == nil {
		config = &api.TraceConfig{}
	}
	out := &ir.Tracing{Driver: spec.Driver, Origins: l.origins()}
	grpc := false
	switch spec.Driver {
	case "zipkin":
		out.Endpoint = cmp.Or(config.CollectorEndpoint, "/api/v2/spans")
		out.EndpointVersion = cmp.Or(config.CollectorEndpointVersion, "HTTP_JSON")
		out.Hostname = config.CollectorHostname
		out.TraceID128Bit = config.TraceID128Bit == nil || *config.TraceID128Bit
		out.SharedSpan = config.SharedSpanContext
		if v := out.EndpointVersion; v != "HTTP_JSON" && v != "HTTP_PROTO" {
			l.fail(codeServiceValue, "spec.config.collector_endpoint_version", v+" is no longer supported by Envoy", "HTTP_JSON or HTTP_PROTO")
		}
		if !strings.HasPrefix(out.Endpoint, "/") || checkHeaderText(out.Endpoint) != nil {
			l.fail(codeServiceValue, "spec.config.collector_endpoint", fmt.Sprintf("%q is no path", out.Endpoint), "such as /api/v2/spans")
		}
	case "datadog":
		out.ServiceName, out.Hostname = cmp.Or(config.ServiceName, "ambassador"), config.CollectorHostname
	case "opentelemetry":
		out.ServiceName, grpc = cmp.Or(config.ServiceName, "ambassador"), true
	case "lightstep":
		l.fail(codeServiceValue, "spec.driver", "Envoy no longer has the driver lightstep", "opentelemetry, which LightStep takes")
	default:
		l.fail(codeServiceValue, "spec.driver", fmt.Sprintf("unknown driver %q", spec.Driver), "zipkin, datadog or opentelemetry")
	}
	if s := spec.Sampling; s != nil {
		out.Client, out.Random, out.Overall = l.share("client", s.Client), l.share("random", s.Random), l.share("overall", s.Overall)
	}
	l.spanTags(out, spec)
	if len(spec.DeprecatedTagHeaders) > 0 {
		l.warn(codeServiceNoEffect, "spec.tag_headers", "accepted, but has no effect, as in Emissary 4", "use custom_tags")
	}
	c, _ := l.ownCluster(upstream{service: spec.Service, grpc: grpc, statsName: spec.StatsName, tag: "tracing"})
	if c == nil {
		return nil
	}
	out.Cluster = c.Name
	return out
}

// identified returns the settings with the trace's identifiers in JSON access logs, where Datadog traces, as Emissary adds
// them.
func identified(s *ir.HTTPSettings, t *ir.Tracing) *ir.HTTPSettings {
	if t == nil || t.Driver != "datadog" || !slices.ContainsFunc(s.AccessLogs, func(a ir.AccessLog) bool { return len(a.JSON) > 0 }) {
		return s
	}
	out := *s
	out.AccessLogs = slices.Clone(s.AccessLogs)
	for i := range out.AccessLogs {
		if a := &out.AccessLogs[i]; len(a.JSON) > 0 {
			a.JSON = maps.Clone(a.JSON)
			a.JSON["dd.trace_id"], a.JSON["dd.span_id"] = "%REQ(X-DATADOG-TRACE-ID)%", "%REQ(X-DATADOG-PARENT-ID)%"
		}
	}
	return &out
}

// share checks a percentage.
func (l *lowering) share(field string, n *int64) *float64 {
	if n == nil {
		return nil
	}
	if *n < 0 || *n > 100 {
		l.fail(codeServiceValue, "spec.sampling."+field, fmt.Sprintf("%d is no percentage", *n), "0 to 100")
		return nil
	}
	p := float64(*n)
	return &p
}

func (l *lowering) spanTags(out *ir.Tracing, spec *api.TracingServiceSpec) {
	for i, t := range spec.CustomTags {
		at := fmt.Sprintf("spec.custom_tags[%d]", i)
		if t.Tag == "" {
			l.fail(codeServiceValue, at+".tag", "a name is needed", "")
		}
		source := func(kind string, s *api.TracingCustomTagSource) {
			tag := ir.TracingTag{Tag: t.Tag, Kind: kind, Source: s.Name}
			if s.DefaultValue != nil {
				tag.Value = *s.DefaultValue
			}
			if s.Name == "" || kind == "request_header" && checkToken(s.Name) != nil {
				l.fail(codeServiceValue, at+"."+kind+".name", fmt.Sprintf("%q is no name", s.Name), "")
			}
			out.Tags = append(out.Tags, tag)
		}
		switch {
		case t.Literal != nil:
			if t.Literal.Value == "" {
				l.fail(codeServiceValue, at+".literal.value", "a value is needed", "")
			}
			out.Tags = append(out.Tags, ir.TracingTag{Tag: t.Tag, Kind: "literal", Value: t.Literal.Value})
		case t.Environment != nil:
			source("environment", t.Environment)
		case t.RequestHeader != nil:
			source("request_header", t.RequestHeader)
		default:
			l.fail(codeServiceValue, at, "one of literal, environment and request_header is needed", "")
		}
	}
}
