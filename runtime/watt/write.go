// Package watt speaks Emissary-ingress' own snapshot format, for tools that know it: it writes what Chancery knows of the
// world in that form, and takes such a snapshot as a source. Secrets are never written: their keys are there, without values.
package watt

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/snapshot/api"
	"github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
)

// Meta says whose snapshot it is.
type Meta struct {
	ClusterID         string `json:"cluster_id"`
	AmbassadorID      string `json:"ambassador_id"`
	AmbassadorVersion string `json:"ambassador_version"`
}

// lists are the kinds by the names that their lists have in the format, in the order in which they are written.
var lists = []struct {
	name string
	kind snapshot.GroupKind
}{
	{"ingressclasses", snapshot.GroupKind{Group: "networking.k8s.io", Kind: "IngressClass"}},
	{"ingresses", snapshot.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}},
	{"service", snapshot.KindService},
	{"Endpoints", snapshot.KindEndpoints},
	{"EndpointSlices", snapshot.KindEndpointSlice},
	{"secret", snapshot.KindSecret},
	{"Listener", v3alpha1.KindListener},
	{"Host", v3alpha1.KindHost},
	{"Mapping", v3alpha1.KindMapping},
	{"TCPMapping", v3alpha1.KindTCPMapping},
	{"Module", v3alpha1.KindModule},
	{"TLSContext", v3alpha1.KindTLSContext},
	{"AuthService", v3alpha1.KindAuthService},
	{"RateLimitService", v3alpha1.KindRateLimitService},
	{"LogService", v3alpha1.KindLogService},
	{"TracingService", v3alpha1.KindTracingService},
	{"DevPortal", v3alpha1.KindDevPortal},
	{"ConsulResolver", v3alpha1.KindConsulResolver},
	{"KubernetesEndpointResolver", v3alpha1.KindKubernetesEndpointResolver},
	{"KubernetesServiceResolver", v3alpha1.KindKubernetesServiceResolver},
	{"GatewayClasses", snapshot.GroupKind{Group: "gateway.networking.k8s.io", Kind: "GatewayClass"}},
	{"Gateways", snapshot.GroupKind{Group: "gateway.networking.k8s.io", Kind: "Gateway"}},
	{"HTTPRoutes", snapshot.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}},
	{"ingresses.networking.internal.knative.dev", snapshot.KindKnativeIngress},
}

// writer writes text and remembers that it could not.
type writer struct {
	*bufio.Writer
	err error
}

func (w *writer) text(parts ...string) {
	for _, p := range parts {
		if _, err := w.WriteString(p); err != nil && w.err == nil {
			w.err = err
		}
	}
}

func (w *writer) value(v any) {
	text, err := json.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.text(string(text))
}

// Write writes a snapshot. Objects stand in their current version; Consul's endpoints are EndpointSlices.
func Write(out io.Writer, s *snapshot.Snapshot, m Meta) error {
	w := &writer{Writer: bufio.NewWriter(out)}
	w.text(`{"Kubernetes":{`)
	annotated := map[string][]*snapshot.Object{}
	for _, l := range lists {
		w.value(l.name)
		w.text(":[")
		first := true
		for o := range s.List(l.kind) {
			if o.Parent != nil {
				key := fmt.Sprintf("%s/%s.%s", o.Parent.Kind, o.Parent.Name, o.Parent.Namespace)
				annotated[key] = append(annotated[key], o)
				continue
			}
			if !first {
				w.text(",\n")
			}
			first = false
			w.object(o)
		}
		w.text("],\n")
	}
	w.text(`"annotations":{`)
	for i, key := range slices.Sorted(maps.Keys(annotated)) {
		if i > 0 {
			w.text(",\n")
		}
		w.value(key)
		w.text(":[")
		for i, o := range annotated[key] {
			if i > 0 {
				w.text(",\n")
			}
			w.object(o)
		}
		w.text("]")
	}
	w.text("}},\n", `"Consul":{},"Deltas":[],"AmbassadorMeta":`)
	w.value(m)
	w.text(",\n", `"Invalid":`)
	w.value(invalid(s))
	w.text("}\n")
	if err := w.Flush(); err != nil && w.err == nil {
		w.err = err
	}
	return w.err
}

// redacted is what stands in place of a value, encoded as values of Secrets are.
var redacted = base64.StdEncoding.EncodeToString([]byte("<REDACTED>"))

func (w *writer) object(o *snapshot.Object) {
	if s, ok := o.Spec.(*snapshot.Secret); ok {
		data := map[string]string{}
		for key := range s.Data {
			data[key] = redacted
		}
		w.value(map[string]any{
			"apiVersion": "v1", "kind": o.Kind, "type": s.Type, "data": data,
			"metadata": map[string]any{"name": o.Name, "namespace": o.Namespace},
		})
		return
	}
	if len(o.Raw) == 0 {
		w.value(map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": map[string]any{"name": o.Name, "namespace": o.Namespace}})
		return
	}
	w.text(string(o.Raw))
}

// invalid lists the objects that could not be read, with what is wrong with them.
func invalid(s *snapshot.Snapshot) []map[string]any {
	out := []map[string]any{}
	for _, d := range s.Findings() {
		r := d.Object
		if d.Severity != snapshot.Error || r.Name == "" || s.Get(r.GroupKind(), r.Namespace, r.Name) != nil {
			continue
		}
		text := d.Message
		if d.Path != "" {
			text = d.Path + ": " + text
		}
		out = append(out, map[string]any{
			"apiVersion": d.APIVersion, "kind": r.Kind, "metadata": map[string]any{"name": r.Name, "namespace": r.Namespace}, "errors": text,
		})
	}
	return out
}

// Read reads a snapshot in Emissary's format; of what Chancery writes beside it, the lists of the same form are read too.
// What is wrong with an object is a finding; the error is about the text as a whole.
func Read(text []byte) ([]*snapshot.Object, []snapshot.Diagnostic, error) {
	var top struct {
		Kubernetes map[string]json.RawMessage `json:"Kubernetes"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&top); err != nil {
		return nil, nil, fmt.Errorf("no snapshot of Emissary's: %w", err)
	}
	if top.Kubernetes == nil {
		return nil, nil, fmt.Errorf("no snapshot of Emissary's: it lacks \"Kubernetes\"")
	}
	var objects []*snapshot.Object
	var findings []snapshot.Diagnostic
	taken := map[snapshot.Ref]bool{}
	take := func(list []json.RawMessage) {
		for _, doc := range list {
			decoded, found := api.DecodeAll(doc, snapshot.Source{}, nil)
			findings = append(findings, found...)
			for _, o := range decoded {
				if !taken[o.Ref] {
					taken[o.Ref] = true
					objects = append(objects, o)
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(top.Kubernetes)) {
		if name == "annotations" {
			continue // last: objects of their own come first
		}
		list, err := array(top.Kubernetes[name])
		if err != nil {
			return nil, nil, fmt.Errorf("list Kubernetes.%s: %w", name, err)
		}
		take(list)
	}
	var annotated map[string][]json.RawMessage
	if a := top.Kubernetes["annotations"]; a != nil {
		if err := json.Unmarshal(a, &annotated); err != nil {
			return nil, nil, fmt.Errorf("member Kubernetes.annotations: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotated)) {
		take(annotated[key])
	}
	return objects, findings, nil
}

func array(text json.RawMessage) (list []json.RawMessage, err error) {
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("no list of objects: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return list, nil
}
