package emissary

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// defaultRateLimitTimeout is timeout_ms' default.
const defaultRateLimitTimeout = 20

// rateLimitService checks a RateLimitService and brings its cluster; the filter itself is in the listeners.
func (l *lowering) rateLimitService(spec *api.RateLimitServiceSpec) {
	if l.onlyOne(api.KindRateLimitService) {
		l.rateLimit(spec)
	}
}

// rateLimitFilter returns the filter that asks the RateLimitService; nil where there is none that is usable, unless it
// wants requests refused then.
func (l *lowering) rateLimitFilter() *ir.Filter {
	o := l.f.first(l.v, api.KindRateLimitService)
	if o == nil {
		return nil
	}
	c := l.aside(o).rateLimit(o.Spec.(*api.RateLimitServiceSpec))
	if c == nil {
		return nil
	}
	return &ir.Filter{Name: ir.FilterRateLimit, Config: c, Origins: []ir.Origin{o.Ref}}
}

func (l *lowering) rateLimit(spec *api.RateLimitServiceSpec) *ir.RateLimit {
	out := &ir.RateLimit{
		Domain:            l.rateLimitDomain(spec),
		TimeoutMillis:     l.span("spec.timeout_ms", spec.Timeout, defaultRateLimitTimeout),
		FailureModeDeny:   spec.FailureModeDeny,
		ResourceExhausted: spec.GRPC != nil && spec.GRPC.UseResourceExhaustedCode,
	}
	l.speaksV3(spec.ProtocolVersion)
	if c, _ := l.ownCluster(upstream{service: spec.Service, tls: spec.TLS, grpc: true, statsName: spec.StatsName}); c != nil {
		out.Cluster = c.Name
		return out
	}
	if spec.FailureModeDeny {
		l.report(snapshot.Error, codeRateLimitClosed, "", "the RateLimitService cannot be asked: requests with labels are refused, as failure_mode_deny says", "")
		return out
	}
	l.report(snapshot.Error, codeRateLimitOpen, "", "the RateLimitService cannot be asked: requests are not limited", "failure_mode_deny: true refuses them")
	return nil
}

func (l *lowering) rateLimitDomain(spec *api.RateLimitServiceSpec) string {
	return cmp.Or(spec.Domain, l.set.labelDomain)
}

// routeLabels fills in the Mapping's rate limit descriptors: those of the RateLimitService's domain, each behind the
// Module's default labels. Where the Mapping has none at all, the default labels of the default domain stand alone.
func (l *lowering) routeLabels(r *ir.Route, spec *api.MappingSpec) {
	if len(spec.Labels) == 0 && len(l.set.labels) == 0 {
		return
	}
	o := l.f.first(l.v, api.KindRateLimitService)
	if o == nil {
		if len(spec.Labels) > 0 {
			l.report(snapshot.Info, codeMappingLabels, "spec.labels", "there is no RateLimitService to ask about them", "")
		}
		return
	}
	domain := l.rateLimitDomain(o.Spec.(*api.RateLimitServiceSpec))
	defaults := l.set.labels[domain]
	var out []ir.RateLimitDescriptor
	add := func(path string, own []api.MappingLabelSpecifier) {
		actions := slices.Clone(defaults)
		for i := range own {
			if a, ok := l.labelAction(path+"["+strconv.Itoa(i)+"]", &own[i]); ok {
				actions = append(actions, a)
			}
		}
		if allOptional(actions) {
			// Envoy would ask about a descriptor without entries where all headers are absent.
			for i := range actions {
				actions[i].Optional = false
			}
			l.report(snapshot.Info, codeMappingLabels, path, "omit_if_not_present has no effect where every label of the group has it: the group is left out where one is absent", "add a label that is always there")
		}
		if len(actions) > 0 {
			out = append(out, ir.RateLimitDescriptor{Actions: actions})
		}
	}
	if len(spec.Labels) == 0 {
		if domain == l.set.labelDomain {
			add("", nil)
		}
	} else {
		for _, other := range sortedKeys(spec.Labels) {
			if other != domain {
				l.warn(codeMappingLabels, "spec.labels["+other+"]", "has no effect: the RateLimitService asks about domain \""+domain+"\"", "")
			}
		}
		for i, group := range spec.Labels[domain] {
			for _, name := range sortedKeys(group) {
				add(fmt.Sprintf("spec.labels[%s][%d].%s", domain, i, name), group[name])
			}
		}
	}
	if len(out) > 0 {
		setFilter(r, ir.FilterRateLimit, &ir.RateLimitRoute{Descriptors: out})
	}
}

func allOptional(actions []ir.RateLimitAction) bool {
	return len(actions) > 0 && !slices.ContainsFunc(actions, func(a ir.RateLimitAction) bool { return !a.Optional })
}

// labelAction makes one entry of a descriptor.
func (l *lowering) labelAction(path string, s *api.MappingLabelSpecifier) (ir.RateLimitAction, bool) {
	switch {
	case s.SourceCluster != nil:
		return ir.RateLimitAction{Kind: ir.RateLimitSourceCluster}, true
	case s.DestinationCluster != nil:
		return ir.RateLimitAction{Kind: ir.RateLimitDestinationCluster}, true
	case s.RemoteAddress != nil:
		return ir.RateLimitAction{Kind: ir.RateLimitRemoteAddress}, true
	case s.GenericKey != nil:
		if s.GenericKey.Value == "" {
			l.fail(codeMappingLabels, path+".generic_key.value", "a value is needed", "")
			return ir.RateLimitAction{}, false
		}
		return ir.RateLimitAction{Kind: ir.RateLimitGeneric, Key: s.GenericKey.Key, Value: s.GenericKey.Value}, true
	case s.RequestHeaders != nil:
		h := s.RequestHeaders
		if err := checkMatchName(h.HeaderName); err != nil {
			l.fail(codeMappingLabels, path+".request_headers.header_name", err.Error(), "")
			return ir.RateLimitAction{}, false
		}
		if h.Key == "" {
			l.fail(codeMappingLabels, path+".request_headers.key", "a key is needed", "")
			return ir.RateLimitAction{}, false
		}
		return ir.RateLimitAction{Kind: ir.RateLimitHeader, Key: h.Key, Header: h.HeaderName, Optional: h.OmitIfNotPresent != nil && *h.OmitIfNotPresent}, true
	}
	l.warn(codeMappingLabels, path, "has no effect: no kind of label that is known", "source_cluster, destination_cluster, request_headers, remote_address or generic_key")
	return ir.RateLimitAction{}, false
}

// labels reads default_label_domain and default_labels: for each domain the labels that stand before all others.
func (r *reader) labels() {
	r.s.labelDomain = "ambassador"
	r.text("default_label_domain", &r.s.labelDomain)
	domains := r.object("default_labels")
	if domains == nil {
		return
	}
	for _, domain := range sortedKeys(domains.values) {
		d := domains.object(domain)
		if d == nil {
			continue
		}
		var list []api.MappingLabelSpecifier
		if d.decode("defaults", &list) {
			var out []ir.RateLimitAction
			if d.trial("defaults", func(l *lowering, path string) {
				for i := range list {
					if a, ok := l.labelAction(path+"["+strconv.Itoa(i)+"]", &list[i]); ok {
						out = append(out, a)
					}
				}
			}) && len(out) > 0 {
				if r.s.labels == nil {
					r.s.labels = map[string][]ir.RateLimitAction{}
				}
				r.s.labels[domain] = out
			}
		}
		d.unknown()
	}
}
