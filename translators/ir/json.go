package ir

import "io"

// WriteJSON writes the program's JSON form with each listener, route, cluster, endpoint set and secret on a line of its
// own, so that two outputs can be compared line by line. It says the same as json.Marshal.
func (p *Program) WriteJSON(w io.Writer) error {
	b := &lines{w: w, object: newObject()}
	b.lit("{\n  \"version\": ")
	b.text(p.Version)
	lineEach(b, 2, "listeners", p.Listeners, func(l *Listener) { b.value(l) })
	lineEach(b, 2, "routeConfigs", p.RouteConfigs, b.routeConfig)
	lineEach(b, 2, "clusters", p.Clusters, b.cluster)
	lineEach(b, 2, "endpointSets", p.EndpointSets, b.endpointSet)
	lineEach(b, 2, "secrets", p.Secrets, func(s *Secret) { b.value(s) })
	if p.Bootstrap != nil {
		b.lit(",\n  \"bootstrap\": ")
		b.value(p.Bootstrap)
	}
	b.lit("\n}\n")
	b.flush()
	return b.err
}

// lines writes values, each compact.
type lines struct {
	*object
	w io.Writer
}

// chunk is how many bytes are gathered for one write.
const chunk = 128 << 10

// flush hands what has been gathered to the writer.
func (b *lines) flush() {
	if b.err == nil {
		_, b.err = b.w.Write(b.out)
	}
	b.out = b.out[:0]
}

func (b *lines) lit(s string) { b.out = append(b.out, s...) }

const blanks = "              "

// lineEach writes a member that is an array, one element to a line; an empty one is left out.
func lineEach[T any](b *lines, indent int, name string, all []*T, write func(*T)) {
	if len(all) == 0 {
		return
	}
	b.lit(",\n" + blanks[:indent] + "\"" + name + "\": [\n")
	for i, v := range all {
		if i > 0 {
			b.lit(",\n")
		}
		b.lit(blanks[:indent+2])
		write(v)
		if len(b.out) > chunk {
			b.flush()
		}
	}
	b.lit("\n" + blanks[:indent] + "]")
}

func (b *lines) routeConfig(c *RouteConfig) {
	b.lit("{\n      \"name\": ")
	b.text(c.Name)
	if len(c.VirtualHosts) == 0 {
		b.lit(",\n      \"virtualHosts\": ")
		b.value(c.VirtualHosts)
	}
	lineEach(b, 6, "virtualHosts", c.VirtualHosts, b.virtualHost)
	b.originLine(6, c.Origins)
	b.lit("\n    }")
}

func (b *lines) virtualHost(v *VirtualHost) {
	b.lit("{\n          \"name\": ")
	b.text(v.Name)
	b.lit(",\n          \"domains\": ")
	b.value(v.Domains)
	lineEach(b, 10, "routes", v.Routes, b.route)
	if v.HTTP3Port != 0 {
		b.lit(",\n          \"http3Port\": ")
		b.value(v.HTTP3Port)
	}
	b.originLine(10, v.Origins)
	b.lit("\n        }")
}

func (b *lines) originLine(indent int, all []Origin) {
	if len(all) > 0 {
		b.lit(",\n" + blanks[:indent] + "\"origins\": ")
		list(b.object, all, (*object).origin)
	}
}
