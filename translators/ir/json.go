package ir

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes the program's JSON form with each listener, route, cluster, endpoint set and secret on a line of its
// own, so that two outputs can be compared line by line. It says the same as json.Marshal.
func (p *Program) WriteJSON(w io.Writer) error {
	b := &lines{w: bufio.NewWriterSize(w, 256<<10)}
	b.encoder = json.NewEncoder(&b.one)
	b.encoder.SetEscapeHTML(false)
	b.text("{\n  \"version\": ")
	b.value(p.Version)
	list(b, 2, "listeners", p.Listeners, b.plain)
	list(b, 2, "routeConfigs", p.RouteConfigs, func(v any) { b.routeConfig(v.(*RouteConfig)) })
	list(b, 2, "clusters", p.Clusters, b.plain)
	list(b, 2, "endpointSets", p.EndpointSets, b.plain)
	list(b, 2, "secrets", p.Secrets, b.plain)
	if p.Bootstrap != nil {
		b.text(",\n  \"bootstrap\": ")
		b.value(p.Bootstrap)
	}
	b.text("\n}\n")
	if b.err != nil {
		return b.err
	}
	return b.w.Flush()
}

// lines writes values, each compact; the first error stays.
type lines struct {
	w       *bufio.Writer
	one     bytes.Buffer
	encoder *json.Encoder
	err     error
}

func (b *lines) text(s string) {
	if b.err == nil {
		_, b.err = b.w.WriteString(s)
	}
}

func (b *lines) value(v any) {
	if b.err != nil {
		return
	}
	b.one.Reset()
	if b.err = b.encoder.Encode(v); b.err == nil {
		_, b.err = b.w.Write(bytes.TrimSuffix(b.one.Bytes(), []byte("\n")))
	}
}

func (b *lines) plain(v any) { b.value(v) }

const blanks = "              "

// list writes a member that is an array, one element to a line; an empty one is left out.
func list[T any](b *lines, indent int, name string, all []*T, write func(any)) {
	if len(all) == 0 {
		return
	}
	b.text(",\n" + blanks[:indent] + "\"" + name + "\": [\n")
	for i, v := range all {
		if i > 0 {
			b.text(",\n")
		}
		b.text(blanks[:indent+2])
		write(v)
	}
	b.text("\n" + blanks[:indent] + "]")
}

func (b *lines) routeConfig(c *RouteConfig) {
	b.text("{\n      \"name\": ")
	b.value(c.Name)
	if len(c.VirtualHosts) == 0 {
		b.text(",\n      \"virtualHosts\": ")
		b.value(c.VirtualHosts)
	}
	list(b, 6, "virtualHosts", c.VirtualHosts, func(v any) { b.virtualHost(v.(*VirtualHost)) })
	b.origins(6, c.Origins)
	b.text("\n    }")
}

func (b *lines) virtualHost(v *VirtualHost) {
	b.text("{\n          \"name\": ")
	b.value(v.Name)
	b.text(",\n          \"domains\": ")
	b.value(v.Domains)
	list(b, 10, "routes", v.Routes, b.plain)
	b.origins(10, v.Origins)
	b.text("\n        }")
}

func (b *lines) origins(indent int, all []Origin) {
	if len(all) > 0 {
		b.text(",\n" + blanks[:indent] + "\"origins\": ")
		b.value(all)
	}
}
