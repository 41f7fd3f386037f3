package v2

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// Revert returns the spec of a v3alpha1 object of the kind as v2 has it, by the rules of Emissary's own conversion. It never
// fails; what it does not understand stays as it is. What v2 cannot say is left out: whoever needs it again keeps it
// elsewhere.
func Revert(kind string, spec jsontext.Value) jsontext.Value {
	o, ok := jsonobject.Parse(spec)
	if !ok {
		return spec
	}
	c := converter{Object: &o}
	for _, r := range renamed[kind] {
		if r[0] != "selector" {
			o.Delete(r[0])
		} else if v := o.Get(r[1]); v == nil || v.Kind() == 'n' {
			continue // the selector of v3alpha1, which counts where there is no mappingSelector
		}
		o.Rename(r[1], r[0])
	}
	c.mark()
	switch kind {
	case "AuthService":
		c.revertTLS("auth_service", true)
	case "RateLimitService":
		c.revertTLS("service", true)
	case "TCPMapping":
		c.revertTLS("service", false)
	case "Host":
		c.within("tls", func(tls converter) { tls.Rename("crl_secret", "v3CRLSecret") })
	case "Mapping":
		c.revertMapping()
	case "TracingService":
		c.within("config", func(config converter) { config.Rename("propagation_modes", "v3PropagationModes") })
		tags, ok := tagsOf(c.Get("tag_headers"))
		if c.Delete("tag_headers"); ok && (!c.Has("v3CustomTags") || c.Get("v3CustomTags").Kind() == 'n') {
			c.Set("v3CustomTags", tags)
		}
	}
	return o.Encode()
}

// markedDefault is what an absent ambassador_id of v3alpha1 is in v2.
var markedDefault = jsonobject.EncodeList([]jsontext.Value{jsonobject.Quote(Marker + "default")})

// mark puts Marker before each ambassador_id, so that those who read v2 only overlook the object.
func (c converter) mark() {
	AmbassadorID(c.Object)
	ids := c.Get("ambassador_id")
	if ids == nil || ids.Kind() == 'n' {
		c.Set("ambassador_id", markedDefault)
		return
	}
	items, ok := jsonobject.ParseList(ids)
	if !ok {
		return
	}
	for i, item := range items {
		if id, ok := jsonobject.Text(item); ok {
			items[i] = jsonobject.Quote(Marker + id)
		}
	}
	c.Set("ambassador_id", jsonobject.EncodeList(items))
}

// revertTLS gives tls and service the spelling that v2ExplicitTLS remembers, as far as it still says the same: TLS is
// originated where tls is true or a name, or else where the service says https://. Services of TCPMappings had no scheme.
func (c converter) revertTLS(service string, hasScheme bool) {
	memory, _ := jsonobject.Parse(c.Delete("v2ExplicitTLS"))
	tls := c.Get("tls")
	name, isText := jsonobject.Text(tls)
	if tls != nil && tls.Kind() != 'n' && !isText {
		return // no v3alpha1
	}
	address, isAddress := jsonobject.Text(c.Get(service))
	scheme, bare := splitScheme(address)
	secure := strings.EqualFold(scheme, "https://")
	explicit := name != ""
	if !explicit {
		c.Delete("tls")
		switch spelling, _ := jsonobject.Text(memory.Get("tls")); spelling {
		case "null":
			c.Set("tls", jsontext.Value("null"))
		case "string":
			c.Set("tls", jsonobject.Quote(""))
		case "bool:false":
			c.Set("tls", jsontext.Value("false"))
		case "bool:true":
			if explicit = secure; explicit {
				c.Set("tls", jsontext.Value("true"))
			}
		}
	}
	was, remembered := jsonobject.Text(memory.Get("serviceScheme"))
	if _, rest := splitScheme(was); rest != "" {
		remembered = false // no scheme
	}
	if !hasScheme {
		was, remembered = "", true
	}
	if isAddress && remembered && (explicit || strings.EqualFold(was, "https://") == secure) {
		c.Set(service, jsonobject.Quote(was+bare))
	}
}

// tagsOf returns the tags that v2's list of header names stands for.
func tagsOf(headers jsontext.Value) (jsontext.Value, bool) {
	items, ok := jsonobject.ParseList(headers)
	if !ok {
		return nil, false
	}
	tags := make([]jsontext.Value, len(items))
	for i, header := range items {
		name := jsonobject.Object{{Name: "name", Value: header}}
		tags[i] = jsonobject.Object{{Name: "tag", Value: header}, {Name: "request_header", Value: name.Encode()}}.Encode()
	}
	return jsonobject.EncodeList(tags), true
}
