package v2

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/fieldpath"
	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// skipHost is the host that Emissary's conversion writes into v2 for a v3alpha1 Mapping that has neither hostname nor host.
const skipHost = "_skip_mapping_with_empty_host_"

func (c converter) mapping() {
	c.tls("service", true)
	c.present("headers", "regex_headers", "v2BoolHeaders")
	c.present("query_parameters", "regex_query_parameters", "v2BoolQueryParameters")
	c.lists("remove_request_headers", "remove_response_headers")
	c.within("cors", func(cors converter) {
		cors.unknown("spec.cors.", "v2CommaSeparatedOrigins", "")
		cors.lists("methods", "headers", "exposed_headers")
		if origins, ok := jsonobject.Text(cors.Get("origins")); ok {
			var list []jsontext.Value
			for origin := range strings.SplitSeq(origins, ",") {
				list = append(list, jsonobject.Quote(origin))
			}
			cors.Set("origins", jsonobject.EncodeList(list))
			cors.Set("v2CommaSeparatedOrigins", jsontext.Value("true"))
		}
	})
	c.within("add_request_headers", converter.addedHeaders)
	c.within("add_response_headers", converter.addedHeaders)
	c.hostname()
	if labels := c.Get("labels"); labels != nil && labels.Kind() != 'n' {
		c.Set("labels", c.labels(labels))
	}
}

// hostname moves host to hostname, where a literal host becomes a glob; a regex stays in host. No host means every host.
func (c converter) hostname() {
	if c.Get("host_regex").Kind() == 't' {
		return
	}
	host := c.Get("host")
	switch name, isText := jsonobject.Text(host); {
	case host != nil && host.Kind() != 'n' && !isText:
		return
	case name == "":
		c.Delete("host")
		c.Set("hostname", jsonobject.Quote("*"))
	case name == skipHost:
		c.Delete("host")
	default:
		c.Delete("host")
		c.Set("hostname", host)
	}
}

// present turns the values true of a map of matches into the regex ".*", unless the name has a regex already, and
// remembers them in order of name (Emissary's own order is by chance). The values false say nothing and are dropped.
func (c converter) present(matches, regexes, memory string) {
	values, ok := jsonobject.Parse(c.Get(matches))
	if !ok {
		return
	}
	patterns, ok := jsonobject.Parse(c.Get(regexes))
	if !ok && c.Get(regexes).Kind() != 'n' && c.Has(regexes) {
		return
	}
	var names []string
	values = slices.DeleteFunc(values, func(m jsonobject.Member) bool {
		switch m.Value.Kind() {
		case 't':
			names = append(names, m.Name)
			return true
		case 'f', 'n':
			return true
		}
		return false
	})
	if len(values) == 0 {
		c.Delete(matches)
	} else {
		c.Set(matches, values.Encode())
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	has := make(map[string]bool, len(patterns))
	for _, p := range patterns {
		has[p.Name] = true
	}
	var list []jsontext.Value
	for _, name := range names {
		list = append(list, jsonobject.Quote(name))
		if !has[name] {
			patterns = append(patterns, jsonobject.Member{Name: name, Value: jsonobject.Quote(".*")})
		}
	}
	c.Set(regexes, patterns.Encode())
	c.Set(memory, jsonobject.EncodeList(list))
}

// addedHeaders turns the shorthand "name: value" into the object form.
func (c converter) addedHeaders() {
	for i, m := range *c.Object {
		switch m.Value.Kind() {
		case '"':
			(*c.Object)[i].Value = jsonobject.Object{
				{Name: "value", Value: m.Value},
				{Name: "v2Representation", Value: jsonobject.Quote("string")},
			}.Encode()
		case 'n':
			(*c.Object)[i].Value = jsontext.Value(`{"v2Representation":"null"}`)
		}
	}
}

// labels converts domain → groups → labels. A part whose shape v2 does not know is carried along as v2Unrecognized, with a
// warning, so that no stored object ever fails to convert.
func (c converter) labels(v jsontext.Value) jsontext.Value {
	domains, ok := jsonobject.Parse(v)
	if !ok {
		group := jsonobject.Object{{Name: unrecognized, Value: c.carried("spec.labels", v, "an object of domains")}}
		return jsonobject.Object{{Name: unrecognized, Value: jsonobject.EncodeList([]jsontext.Value{group.Encode()})}}.Encode()
	}
	for i, domain := range domains {
		path := fieldpath.Member("spec.labels", domain.Name)
		groups, ok := jsonobject.ParseList(domain.Value)
		if !ok && domain.Value.Kind() != 'n' {
			groups = []jsontext.Value{jsonobject.Object{{Name: unrecognized, Value: c.carried(path, domain.Value, "a list of groups")}}.Encode()}
		}
		var converted []jsontext.Value
		for j, group := range groups {
			if ok {
				converted = append(converted, c.labelGroup(fieldpath.Item(path, j), group)...)
			} else {
				converted = append(converted, group)
			}
		}
		domains[i].Value = jsonobject.EncodeList(converted)
	}
	return domains.Encode()
}

// labelGroup converts one item of a domain's list: one group, or more where several share an item, in order of name.
func (c converter) labelGroup(path string, v jsontext.Value) []jsontext.Value {
	groups, ok := jsonobject.Parse(v)
	if !ok || len(groups) == 0 {
		return []jsontext.Value{jsonobject.Object{{Name: unrecognized, Value: c.carried(path, v, "an object with one group")}}.Encode()}
	}
	byName(groups)
	var converted []jsontext.Value
	for _, group := range groups {
		at := fieldpath.Member(path, group.Name)
		var labels []jsontext.Value
		if items, ok := jsonobject.ParseList(group.Value); ok {
			for i, item := range items {
				labels = append(labels, c.label(fieldpath.Item(at, i), item)...)
			}
			group.Value = jsonobject.EncodeList(labels)
		} else {
			group.Value = c.carried(at, group.Value, "a list of labels")
		}
		converted = append(converted, jsonobject.Object{group}.Encode())
	}
	return converted
}

// label converts one label. A string is one of three fixed labels or a generic one; an object is a generic label or names
// headers: one label each, in order of key (Emissary's conversion keeps one of them by chance, and loses v3Key).
func (c converter) label(path string, v jsontext.Value) []jsontext.Value {
	if text, ok := jsonobject.Text(v); ok {
		switch text {
		case "source_cluster", "destination_cluster", "remote_address":
			return []jsontext.Value{jsonobject.Object{{Name: text, Value: jsonobject.Object{{Name: "key", Value: v}}.Encode()}}.Encode()}
		case "":
			return []jsontext.Value{c.unrecognized(path, v, "a label that is not empty")}
		}
		generic := jsonobject.Object{{Name: "value", Value: v}, {Name: "v2Shorthand", Value: jsontext.Value("true")}}
		return []jsontext.Value{jsonobject.Object{{Name: "generic_key", Value: generic.Encode()}}.Encode()}
	}
	o, _ := jsonobject.Parse(v)
	if value, ok := jsonobject.Text(o.Get("generic_key")); ok && value != "" && onlyNames(o, "generic_key", "v3Key") {
		generic := jsonobject.Object{{Name: "value", Value: o.Get("generic_key")}}
		if key, ok := jsonobject.Text(o.Get("v3Key")); ok && key != "" {
			generic.Set("key", o.Get("v3Key"))
		}
		return []jsontext.Value{jsonobject.Object{{Name: "generic_key", Value: generic.Encode()}}.Encode()}
	}
	if len(o) == 0 {
		return []jsontext.Value{c.unrecognized(path, v, "a string, a header label or a generic_key")}
	}
	byName(o)
	var labels []jsontext.Value
	for _, m := range o {
		header, _ := jsonobject.Parse(m.Value)
		name, ok := jsonobject.Text(header.Get("header"))
		omit := header.Get("omit_if_not_present")
		if !ok || name == "" || m.Name == "" || !onlyNames(header, "header", "omit_if_not_present") ||
			omit != nil && !slices.Contains([]jsontext.Kind{'t', 'f', 'n'}, omit.Kind()) {
			return []jsontext.Value{c.unrecognized(path, v, "a string, a header label or a generic_key")}
		}
		label := jsonobject.Object{{Name: "key", Value: jsonobject.Quote(m.Name)}, {Name: "header_name", Value: header.Get("header")}}
		if omit != nil {
			label.Set("omit_if_not_present", omit)
		}
		labels = append(labels, jsonobject.Object{{Name: "request_headers", Value: label.Encode()}}.Encode())
	}
	return labels
}

const unrecognized = "v2Unrecognized"

// unrecognized warns of a label of unknown shape and returns the label that carries it.
func (c converter) unrecognized(path string, v jsontext.Value, expected string) jsontext.Value {
	c.warn(path, "expected "+expected+"; this part of the labels has no effect",
		`write a label as "name", {"key": {"header": "x-name"}} or {"generic_key": "value"}`)
	return jsonobject.Object{{Name: unrecognized, Value: v}}.Encode()
}

// carried returns a list of labels that carries something of unknown shape.
func (c converter) carried(path string, v jsontext.Value, expected string) jsontext.Value {
	return jsonobject.EncodeList([]jsontext.Value{c.unrecognized(path, v, expected)})
}

func onlyNames(o jsonobject.Object, names ...string) bool {
	for _, m := range o {
		if !slices.Contains(names, m.Name) {
			return false
		}
	}
	return true
}

func byName(o jsonobject.Object) {
	slices.SortFunc(o, func(a, b jsonobject.Member) int { return strings.Compare(a.Name, b.Name) })
}
