// Package v2 converts Emissary's custom resources of the version getambassador.io/v2 to v3alpha1. The rules are those of
// Emissary's own conversion, except where that loses something or depends on chance: both are said beside the rule.
package v2

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// Marker stands before every ambassador_id that Emissary's conversion writes into v2 from v3alpha1, so that readers of v2
// overlook the object. It means nothing to a reader of v3alpha1.
const Marker = "--apiVersion-v3alpha1-only--"

// renamed lists, by kind, the fields of v2 that have another name in v3alpha1. They are younger than v2 and kept in it
// under a name of their own.
var renamed = map[string][][2]string{
	"AuthService":      {{"v3StatsName", "stats_name"}, {"v3CircuitBreakers", "circuit_breakers"}},
	"LogService":       {{"v3ProtocolVersion", "protocol_version"}, {"v3StatsName", "stats_name"}},
	"Mapping":          {{"v3health_checks", "health_checks"}, {"v3StatsName", "stats_name"}},
	"RateLimitService": {{"v3StatsName", "stats_name"}, {"v3GRPC", "grpc"}},
	"TCPMapping":       {{"v3StatsName", "stats_name"}},
	"TLSContext":       {{"v3CRLSecret", "crl_secret"}},
	"TracingService":   {{"v3StatsName", "stats_name"}, {"v3CustomTags", "custom_tags"}},
	"Host":             {{"selector", "mappingSelector"}},
}

// younger lists, by kind, further fields that only v3alpha1 has.
var younger = map[string][]string{
	"AuthService":      {"v2ExplicitTLS"},
	"Mapping":          {"hostname", "v2ExplicitTLS", "v2BoolHeaders", "v2BoolQueryParameters"},
	"RateLimitService": {"v2ExplicitTLS"},
	"TCPMapping":       {"v2ExplicitTLS"},
}

// Convert returns the spec of an object of the kind as v3alpha1 has it. It never fails: what it does not understand stays
// as it is, for v3alpha1's own checks to judge. Warn is called for what changes its meaning or gets lost, with the field's
// path in v2.
func Convert(kind string, spec jsontext.Value, warn func(path, message, help string)) jsontext.Value {
	o, ok := jsonobject.Parse(spec)
	if !ok {
		return spec
	}
	c := converter{&o, warn}
	for _, r := range renamed[kind] {
		c.younger("spec.", r[1], r[0])
	}
	for _, name := range younger[kind] {
		c.unknown("spec.", name, "")
	}
	AmbassadorID(&o)
	switch kind {
	case "AuthService":
		c.tls("auth_service", true)
	case "RateLimitService":
		c.tls("service", true)
	case "TCPMapping":
		c.tls("service", false)
	case "Host":
		c.within("tls", func(tls converter) { tls.younger("spec.tls.", "crl_secret", "v3CRLSecret") })
	case "Mapping":
		c.mapping()
	case "TracingService":
		c.tracing()
	}
	return o.Encode()
}

// converter edits one object.
type converter struct {
	*jsonobject.Object
	warn func(path, message, help string)
}

// younger gives a field that v2 has under a name of its own its name in v3alpha1.
func (c converter) younger(path, name, spelling string) {
	c.unknown(path, name, spelling)
	c.Rename(spelling, name)
}

// unknown drops a field of v3alpha1 from a v2 object, as the API server does.
func (c converter) unknown(path, name, spelling string) {
	if c.Delete(name) == nil {
		return
	}
	help := "use apiVersion getambassador.io/v3alpha1"
	if spelling != "" {
		help += ", or the field's name in v2, " + spelling
	} else if name == "hostname" {
		help += ", or the field host"
	}
	c.warn(path+name, "unknown field in getambassador.io/v2; it has no effect", help)
}

// within edits the object that a member holds.
func (c converter) within(name string, edit func(converter)) {
	if inner, ok := jsonobject.Parse(c.Get(name)); ok {
		edit(converter{&inner, c.warn})
		c.Set(name, inner.Encode())
	}
}

// AmbassadorID turns an ambassador_id that is a string into a list, adds the items of the alias ambassadorId, and takes
// Marker away.
func AmbassadorID(o *jsonobject.Object) {
	ids := asList(o.Get("ambassador_id"))
	if alias := o.Get("ambassadorId"); alias != nil {
		more, ok := jsonobject.ParseList(asList(alias))
		have, _ := jsonobject.ParseList(ids)
		if ok && (ids == nil || ids.Kind() == 'n' || have != nil) {
			o.Delete("ambassadorId")
			ids = jsonobject.EncodeList(append(have, more...))
		}
	}
	items, ok := jsonobject.ParseList(ids)
	if !ok {
		return
	}
	if len(items) == 1 && string(items[0]) == string(jsonobject.Quote(Marker+"default")) {
		o.Delete("ambassador_id") // what v3alpha1 does not say either
		return
	}
	for i, item := range items {
		if id, ok := jsonobject.Text(item); ok {
			items[i] = jsonobject.Quote(strings.TrimPrefix(id, Marker))
		}
	}
	o.Set("ambassador_id", jsonobject.EncodeList(items))
}

// asList returns a string as a list of one, and anything else as it is.
func asList(v jsontext.Value) jsontext.Value {
	if v.Kind() == '"' {
		return jsonobject.EncodeList([]jsontext.Value{v})
	}
	return v
}

// lists turns members that are strings into lists of one.
func (c converter) lists(names ...string) {
	for _, name := range names {
		if v := c.Get(name); v != nil {
			c.Set(name, asList(v))
		}
	}
}

// tls applies v2's rules for the fields tls and service. A string that is not empty names a TLSContext. Otherwise TLS is
// originated when the service says https:// or tls is true; v3alpha1 says it in the service alone, and v2ExplicitTLS
// remembers the spelling (its serviceScheme only where keepScheme is).
func (c converter) tls(service string, keepScheme bool) {
	tls := c.Get("tls")
	name, isText := jsonobject.Text(tls)
	if name != "" {
		c.Set("v2ExplicitTLS", jsontext.Value(`{}`))
		return
	}
	var memory jsonobject.Object
	switch {
	case tls == nil:
	case isText:
		memory.Set("tls", jsonobject.Quote("string"))
	case tls.Kind() == 't', tls.Kind() == 'f':
		memory.Set("tls", jsonobject.Quote("bool:"+string(tls)))
	case tls.Kind() == 'n':
		memory.Set("tls", jsonobject.Quote("null"))
	default:
		return // neither text nor boolean: v3alpha1 refuses it
	}
	c.Delete("tls")
	if address, ok := jsonobject.Text(c.Get(service)); ok && tls.Kind() == 't' {
		if scheme, bare := splitScheme(address); !strings.EqualFold(scheme, "https://") {
			c.Set(service, jsonobject.Quote("https://"+bare))
			if keepScheme {
				memory.Set("serviceScheme", jsonobject.Quote(scheme))
			}
		}
	}
	if len(memory) > 0 {
		c.Set("v2ExplicitTLS", memory.Encode())
	}
}

// splitScheme cuts "http://" or "https://", in any case, from a service.
func splitScheme(service string) (scheme, bare string) {
	for _, s := range []string{"https://", "http://"} {
		if len(service) >= len(s) && strings.EqualFold(service[:len(s)], s) {
			return service[:len(s)], service[len(s):]
		}
	}
	return "", service
}

// tracing moves the old list of header names to custom_tags, which win where both are there.
func (c converter) tracing() {
	c.within("config", func(config converter) { config.younger("spec.config.", "propagation_modes", "v3PropagationModes") })
	tags, ok := tagsOf(c.Get("tag_headers"))
	if !ok {
		return
	}
	c.Delete("tag_headers")
	if v := c.Get("custom_tags"); v != nil && v.Kind() != 'n' {
		c.warn("spec.tag_headers", "tag_headers and v3CustomTags are both set; tag_headers has no effect", "name the headers in v3CustomTags")
		return
	}
	c.Set("custom_tags", tags)
}
