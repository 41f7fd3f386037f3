package api

import (
	"iter"
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

func (p *proper) members(v jsontext.Value) iter.Seq2[[]byte, jsontext.Value] {
	p.expect(v.Kind() == '{' || v.Kind() == 'n')
	return jsonobject.Members(v)
}

func (p *proper) items(v jsontext.Value) iter.Seq[jsontext.Value] {
	p.expect(v.Kind() == '[' || v.Kind() == 'n')
	return jsonobject.Items(v)
}

// texts reads an object of strings but for one name; nil for null.
func (p *proper) texts(v jsontext.Value, except string) map[string]string {
	if v.Kind() == 'n' {
		return nil
	}
	out := map[string]string{}
	for name, value := range p.members(v) {
		if string(name) != except {
			out[string(name)] = p.text(value, "")
		}
	}
	return out
}

func (m *metadata) read(v jsontext.Value) bool {
	var p proper
	for name, value := range p.members(v) {
		switch string(name) {
		case "name":
			m.Name = p.text(value, "")
		case "namespace":
			m.Namespace = p.text(value, "")
		case "uid":
			m.UID = p.text(value, "")
		case "labels":
			m.Labels = p.texts(value, lastApplied)
		case "annotations":
			m.Annotations = p.texts(value, lastApplied)
		case "generation":
			m.Generation = p.number(value, 64)
		case "creationTimestamp":
			if at := p.text(value, ""); value.Kind() != 'n' {
				p.expect(m.CreationTimestamp.UnmarshalText([]byte(at)) == nil)
			}
		}
	}
	return !p.bad
}

func (s *serviceSpec) read(v jsontext.Value) bool {
	var p proper
	for name, value := range p.members(v) {
		switch string(name) {
		case "type":
			s.Type = p.text(value, "ClusterIP")
		case "clusterIP":
			s.ClusterIP = p.text(value, "None")
		case "externalName":
			s.ExternalName = p.text(value, "")
		case "ports":
			s.Ports = s.Ports[:0]
			for item := range p.items(value) {
				s.Ports = append(s.Ports, p.servicePort(item))
			}
		}
	}
	return !p.bad
}

func (p *proper) servicePort(v jsontext.Value) (port servicePort) {
	for name, value := range p.members(v) {
		switch string(name) {
		case "name":
			port.Name = p.text(value, "http")
		case "protocol":
			port.Protocol = p.text(value, "TCP")
		case "port":
			port.Port = int32(p.number(value, 32))
		case "targetPort":
			if value.Kind() == '0' {
				port.TargetPort = intOrString(strconv.FormatInt(p.number(value, 32), 10))
			} else {
				port.TargetPort = intOrString(p.text(value, "http"))
			}
		}
	}
	return port
}

func (l *endpointPorts) read(v jsontext.Value) bool {
	var p proper
	for item := range p.items(v) {
		var port endpointPort
		for name, value := range p.members(item) {
			switch string(name) {
			case "name":
				port.Name = p.text(value, "http")
			case "protocol":
				port.Protocol = p.text(value, "TCP")
			case "port":
				port.Port = int32(p.number(value, 32))
			}
		}
		*l = append(*l, port)
	}
	return !p.bad
}

func (l *sliceEndpoints) read(v jsontext.Value) bool {
	var p proper
	for item := range p.items(v) {
		var e sliceEndpoint
		for name, value := range p.members(item) {
			switch string(name) {
			case "addresses":
				for address := range p.items(value) {
					e.Addresses = append(e.Addresses, p.text(address, ""))
				}
			case "conditions":
				for condition, holds := range p.members(value) {
					switch string(condition) {
					case "ready":
						e.Conditions.Ready = p.flag(holds)
					case "serving":
						e.Conditions.Serving = p.flag(holds)
					case "terminating":
						e.Conditions.Terminating = p.flag(holds)
					}
				}
			case "zone":
				e.Zone = p.text(value, "")
			}
		}
		*l = append(*l, e)
	}
	return !p.bad
}
