package manifest

import (
	"bytes"

	"github.com/chancery-gateway/chancery/snapshot"
)

// snapshotKinds are the keys of Emissary's snapshot JSON whose objects may come without kind and apiVersion (Emissary's
// pkg/snapshot/v1/types.go). Under the other keys stand objects that say both.
var snapshotKinds = map[string]string{
	`"service"`:                    `"apiVersion":"v1","kind":"Service"`,
	`"Endpoints"`:                  `"apiVersion":"v1","kind":"Endpoints"`,
	`"secret"`:                     `"apiVersion":"v1","kind":"Secret"`,
	`"ingressclasses"`:             `"apiVersion":"networking.k8s.io/v1","kind":"IngressClass"`,
	`"Mapping"`:                    `"apiVersion":"getambassador.io/v3alpha1","kind":"Mapping"`,
	`"TCPMapping"`:                 `"apiVersion":"getambassador.io/v3alpha1","kind":"TCPMapping"`,
	`"Host"`:                       `"apiVersion":"getambassador.io/v3alpha1","kind":"Host"`,
	`"Listener"`:                   `"apiVersion":"getambassador.io/v3alpha1","kind":"Listener"`,
	`"Module"`:                     `"apiVersion":"getambassador.io/v3alpha1","kind":"Module"`,
	`"TLSContext"`:                 `"apiVersion":"getambassador.io/v3alpha1","kind":"TLSContext"`,
	`"AuthService"`:                `"apiVersion":"getambassador.io/v3alpha1","kind":"AuthService"`,
	`"RateLimitService"`:           `"apiVersion":"getambassador.io/v3alpha1","kind":"RateLimitService"`,
	`"LogService"`:                 `"apiVersion":"getambassador.io/v3alpha1","kind":"LogService"`,
	`"TracingService"`:             `"apiVersion":"getambassador.io/v3alpha1","kind":"TracingService"`,
	`"DevPortal"`:                  `"apiVersion":"getambassador.io/v3alpha1","kind":"DevPortal"`,
	`"ConsulResolver"`:             `"apiVersion":"getambassador.io/v3alpha1","kind":"ConsulResolver"`,
	`"KubernetesEndpointResolver"`: `"apiVersion":"getambassador.io/v3alpha1","kind":"KubernetesEndpointResolver"`,
	`"KubernetesServiceResolver"`:  `"apiVersion":"getambassador.io/v3alpha1","kind":"KubernetesServiceResolver"`,
}

// emissary adds the objects of a snapshot as Emissary-ingress writes it: every list under "Kubernetes", and "Invalid".
// Its "annotations" are left out, since they are expanded from the Services and Ingresses that carry them; ConfigMaps are
// in it but read by nobody.
func (s *stream) emissary(line int, text, out []byte) {
	shared := len(text) != len(out) || &text[0] != &out[0]
	at, seen := line, 0
	add := func(key []byte, array span) {
		if out[array.start] != '[' {
			return
		}
		for e := range elements(out[array.start:array.end]) {
			start, end := array.start+e.start, array.start+e.end
			d := Document{JSON: complete(out[start:end:end], snapshotKinds[string(key)]), Position: snapshot.Position{File: s.file, Line: line}}
			if !shared {
				at += bytes.Count(text[seen:start], []byte{'\n'})
				seen = start
				d.Position.Line, d.Text = at, text[start:end:end]
			}
			if d.JSON[0] != '{' {
				s.fail(d.Position.Line, d.Text, problem{code: NotObject, message: "an element of " + string(key) + " is " + describe(d.JSON) + ", not an object",
					help: "each element is a whole object"})
				continue
			}
			s.docs = append(s.docs, d)
		}
	}
	for key, v := range fields(out) {
		switch string(key) {
		case `"Kubernetes"`:
			for kind, list := range fields(out[v.start:v.end]) {
				if k := string(kind); k != `"annotations"` && k != `"ConfigMaps"` {
					add(kind, span{v.start + list.start, v.start + list.end})
				}
			}
		case `"Invalid"`:
			add(key, v)
		}
	}
}

// complete puts apiVersion and kind into an object that says no kind.
func complete(object []byte, head string) []byte {
	if head == "" || object[0] != '{' {
		return object
	}
	for key := range fields(object) {
		if string(key) == `"kind"` {
			return object
		}
	}
	out := append(make([]byte, 0, len(object)+len(head)+2), '{')
	out = append(out, head...)
	for key, v := range fields(object) {
		if k := string(key); k == `"kind"` || k == `"apiVersion"` {
			continue
		}
		out = append(append(out, ','), key...)
		out = append(append(out, ':'), object[v.start:v.end]...)
	}
	return append(out, '}')
}
