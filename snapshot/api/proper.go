package api

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chancery-gateway/chancery/snapshot/api/internal/jsonobject"
)

// readable is a Go value that takes over JSON in which everything has its proper type, and reports whether that was so. It does
// without reflection what decoding does, which is left with what has to be complained about.
type readable interface {
	read(v jsontext.Value) bool
}

// proper reads parts of a readable. Null is the zero value everywhere, as it is in decoding.
type proper struct{ bad bool }

func (p *proper) expect(ok bool) { p.bad = p.bad || !ok }

// text reads a string; one that is as like says shares its memory.
func (p *proper) text(v jsontext.Value, like string) string {
	if v.Kind() == 'n' {
		return ""
	}
	s, ok := jsonobject.TextLike(v, like)
	p.expect(ok)
	return s
}

func (p *proper) number(v jsontext.Value, bits int) int64 {
	if v.Kind() == 'n' {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, bits)
	p.expect(err == nil)
	return n
}

func (p *proper) flag(v jsontext.Value) *bool {
	switch v.Kind() {
	case 'n':
		return nil
	case 't', 'f':
		return new(v.Kind() == 't')
	}
	p.bad = true
	return nil
}

func (p *proper) members(v jsontext.Value) jsonobject.Cursor {
	p.expect(v.Kind() == '{' || v.Kind() == 'n')
	return jsonobject.Open(v, '{')
}

func (p *proper) items(v jsontext.Value) jsonobject.Cursor {
	p.expect(v.Kind() == '[' || v.Kind() == 'n')
	return jsonobject.Open(v, '[')
}

// texts reads an object of strings but for one name; nil for null.
func (p *proper) texts(v jsontext.Value, except string) map[string]string {
	if v.Kind() == 'n' {
		return nil
	}
	out := map[string]string{}
	for m := p.members(v); m.Next(); {
		if string(m.Name) != except {
			out[string(m.Name)] = p.text(m.Value, "")
		}
	}
	return out
}

func (meta *metadata) read(v jsontext.Value) bool {
	var p proper
	for m := p.members(v); m.Next(); {
		switch string(m.Name) {
		case "name":
			meta.Name = p.text(m.Value, "")
		case "namespace":
			meta.Namespace = p.text(m.Value, "")
		case "uid":
			meta.UID = p.text(m.Value, "")
		case "labels":
			meta.Labels = p.texts(m.Value, lastApplied)
		case "annotations":
			meta.Annotations = p.texts(m.Value, lastApplied)
		case "generation":
			meta.Generation = p.number(m.Value, 64)
		case "creationTimestamp":
			if at := p.text(m.Value, ""); m.Value.Kind() != 'n' {
				p.expect(meta.CreationTimestamp.UnmarshalText([]byte(at)) == nil)
			}
		}
	}
	return !p.bad
}

func (s *serviceSpec) read(v jsontext.Value) bool {
	var p proper
	for m := p.members(v); m.Next(); {
		switch string(m.Name) {
		case "type":
			s.Type = p.text(m.Value, "ClusterIP")
		case "clusterIP":
			s.ClusterIP = p.text(m.Value, "None")
		case "externalName":
			s.ExternalName = p.text(m.Value, "")
		case "ports":
			s.Ports = s.Ports[:0]
			for port := p.items(m.Value); port.Next(); {
				s.Ports = append(s.Ports, p.servicePort(port.Value))
			}
		}
	}
	return !p.bad
}

func (p *proper) servicePort(v jsontext.Value) (port servicePort) {
	for m := p.members(v); m.Next(); {
		switch string(m.Name) {
		case "name":
			port.Name = p.text(m.Value, "http")
		case "protocol":
			port.Protocol = p.text(m.Value, "TCP")
		case "port":
			port.Port = int32(p.number(m.Value, 32))
		case "targetPort":
			if m.Value.Kind() == '0' {
				port.TargetPort = intOrString(strconv.FormatInt(p.number(m.Value, 32), 10))
			} else {
				port.TargetPort = intOrString(p.text(m.Value, "http"))
			}
		case "appProtocol":
			port.AppProtocol = p.text(m.Value, "kubernetes.io/h2c")
		}
	}
	return port
}

func (l *endpointPorts) read(v jsontext.Value) bool {
	var p proper
	for item := p.items(v); item.Next(); {
		var port endpointPort
		for m := p.members(item.Value); m.Next(); {
			switch string(m.Name) {
			case "name":
				port.Name = p.text(m.Value, "http")
			case "protocol":
				port.Protocol = p.text(m.Value, "TCP")
			case "port":
				port.Port = int32(p.number(m.Value, 32))
			}
		}
		*l = append(*l, port)
	}
	return !p.bad
}

func (l *sliceEndpoints) read(v jsontext.Value) bool {
	var p proper
	for item := p.items(v); item.Next(); {
		var e sliceEndpoint
		for m := p.members(item.Value); m.Next(); {
			switch string(m.Name) {
			case "addresses":
				for a := p.items(m.Value); a.Next(); {
					e.Addresses = append(e.Addresses, p.text(a.Value, ""))
				}
			case "conditions":
				for c := p.members(m.Value); c.Next(); {
					switch string(c.Name) {
					case "ready":
						e.Conditions.Ready = p.flag(c.Value)
					case "serving":
						e.Conditions.Serving = p.flag(c.Value)
					case "terminating":
						e.Conditions.Terminating = p.flag(c.Value)
					}
				}
			case "zone":
				e.Zone = p.text(m.Value, "")
			}
		}
		*l = append(*l, e)
	}
	return !p.bad
}
