package v2

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

func (c converter) revertMapping() {
	c.revertTLS("service", true)
	c.revertPresent("headers", "regex_headers", "v2BoolHeaders")
	c.revertPresent("query_parameters", "regex_query_parameters", "v2BoolQueryParameters")
	c.within("cors", converter.revertOrigins)
	c.within("add_request_headers", converter.revertAddedHeaders)
	c.within("add_response_headers", converter.revertAddedHeaders)
	c.revertHostname()
	c.within("labels", converter.revertLabels)
}

// revertHostname makes the one host of v2. A Mapping that has neither hostname nor host belongs to no host; v2 could not
// say that.
func (c converter) revertHostname() {
	hostname, host := c.Get("hostname"), c.Get("host")
	for _, v := range []jsontext.Value{hostname, host} {
		if v != nil && v.Kind() != 'n' && v.Kind() != '"' {
			return // no v3alpha1
		}
	}
	c.Delete("hostname")
	name, _ := jsonobject.Text(hostname)
	deprecated, _ := jsonobject.Text(host)
	regex := c.Get("host_regex").Kind() == 't'
	switch {
	case name != "":
		if regex {
			c.Set("host_regex", jsontext.Value("false"))
		}
	case deprecated == "" && !regex:
		name = skipHost
	case deprecated == "":
		return
	default:
		name = deprecated
	}
	if name == "*" && c.Get("host_regex").Kind() != 't' {
		c.Delete("host") // every host
	} else {
		c.Set("host", jsonobject.Quote(name))
	}
}

// revertPresent turns the regexes of names that v2 spelled as true back into that, unless there is a value too.
func (c converter) revertPresent(matches, regexes, memory string) {
	names, _ := jsonobject.ParseList(c.Delete(memory))
	patterns, ok := jsonobject.Parse(c.Get(regexes))
	values, isObject := jsonobject.Parse(c.Get(matches))
	if !ok || !isObject && c.Has(matches) && c.Get(matches).Kind() != 'n' {
		return
	}
	there := map[string]bool{}
	for _, v := range values {
		there[v.Name] = true
	}
	pattern := map[string]string{}
	for _, p := range patterns {
		pattern[p.Name], _ = jsonobject.Text(p.Value)
	}
	implied := map[string]bool{}
	found := false
	for _, quoted := range names {
		name, ok := jsonobject.Text(quoted)
		regex, has := pattern[name]
		if !ok || !has || there[name] {
			continue
		}
		found, there[name], implied[name] = true, true, regex == ".*"
		values = append(values, jsonobject.Member{Name: name, Value: jsontext.Value("true")})
	}
	if !found {
		return
	}
	c.Set(matches, values.Encode())
	patterns = slices.DeleteFunc(patterns, func(p jsonobject.Member) bool { return implied[p.Name] })
	if len(patterns) == 0 {
		c.Delete(regexes)
	} else {
		c.Set(regexes, patterns.Encode())
	}
}

// revertOrigins joins the origins that v2 spelled as one string.
func (c converter) revertOrigins() {
	if c.Delete("v2CommaSeparatedOrigins").Kind() != 't' {
		return
	}
	origins, _ := jsonobject.ParseList(c.Get("origins"))
	var list []string
	for _, v := range origins {
		origin, ok := jsonobject.Text(v)
		if !ok || strings.Contains(origin, ",") {
			return
		}
		list = append(list, origin)
	}
	if len(list) > 0 {
		c.Set("origins", jsonobject.Quote(strings.Join(list, ",")))
	}
}

// revertAddedHeaders gives added headers the spelling that v2Representation remembers, as far as it can say the same.
func (c converter) revertAddedHeaders() {
	for i, m := range *c.Object {
		header, ok := jsonobject.Parse(m.Value)
		if !ok {
			continue
		}
		spelling, isText := jsonobject.Text(header.Get("v2Representation"))
		if isText {
			header.Delete("v2Representation")
		}
		switch {
		case spelling == "string" && len(header) == 1 && header.Get("value").Kind() == '"':
			(*c.Object)[i].Value = header.Get("value")
		case spelling == "null" && len(header) == 0:
			(*c.Object)[i].Value = jsontext.Value("null")
		default:
			(*c.Object)[i].Value = header.Encode()
		}
	}
}

// revertLabels converts domain → groups → labels.
func (c converter) revertLabels() {
	for i, domain := range *c.Object {
		groups, ok := jsonobject.ParseList(domain.Value)
		if !ok {
			continue
		}
		for j, group := range groups {
			named, ok := jsonobject.Parse(group)
			if !ok {
				continue
			}
			for k, g := range named {
				if labels, ok := jsonobject.ParseList(g.Value); ok {
					for l := range labels {
						labels[l] = revertLabel(labels[l])
					}
					named[k].Value = jsonobject.EncodeList(labels)
				}
			}
			groups[j] = named.Encode()
		}
		(*c.Object)[i].Value = jsonobject.EncodeList(groups)
	}
}

// revertLabel converts one label. One of a shape that v3alpha1 does not describe stays as it is.
func revertLabel(v jsontext.Value) jsontext.Value {
	label, ok := jsonobject.Parse(v)
	if !ok || len(label) != 1 {
		return v
	}
	inner, _ := jsonobject.Parse(label[0].Value)
	switch label[0].Name {
	case "source_cluster", "destination_cluster", "remote_address":
		if key, _ := jsonobject.Text(inner.Get("key")); key == label[0].Name && len(inner) == 1 {
			return inner.Get("key")
		}
	case "request_headers":
		key, _ := jsonobject.Text(inner.Get("key"))
		name, _ := jsonobject.Text(inner.Get("header_name"))
		if key == "" || name == "" || !onlyNames(inner, "key", "header_name", "omit_if_not_present") {
			return v
		}
		header := jsonobject.Object{{Name: "header", Value: inner.Get("header_name")}}
		if omit := inner.Get("omit_if_not_present"); omit != nil {
			header.Set("omit_if_not_present", omit)
		}
		return jsonobject.Object{{Name: key, Value: header.Encode()}}.Encode()
	case "generic_key":
		value, _ := jsonobject.Text(inner.Get("value"))
		if value == "" || !onlyNames(inner, "value", "key", "v2Shorthand") {
			return v
		}
		key, _ := jsonobject.Text(inner.Get("key"))
		fixed := slices.Contains([]string{"source_cluster", "destination_cluster", "remote_address"}, value)
		if key == "" && inner.Get("v2Shorthand").Kind() == 't' && !fixed {
			return inner.Get("value")
		}
		generic := jsonobject.Object{{Name: "generic_key", Value: inner.Get("value")}}
		if key != "" {
			generic.Set("v3Key", inner.Get("key"))
		}
		return generic.Encode()
	case unrecognized:
		return label[0].Value
	}
	return v
}
