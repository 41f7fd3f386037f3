package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/chancery-gateway/chancery/runtime/report"
	"github.com/chancery-gateway/chancery/snapshot"
	"github.com/chancery-gateway/chancery/translators"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Node is one thing of the program that an object takes part in.
type Node struct {
	// Kind is "listener", "filter chain", "virtual host", "route", "cluster", "endpoint set", "secret" or, for what became of an
	// object of Gateway API, "status".
	Kind string `json:"kind"`
	// Name is the node's own, Within the names of what holds it, outermost first.
	Name   string   `json:"name"`
	Within []string `json:"within,omitempty"`
	// Detail says in words what it does.
	Detail string `json:"detail,omitempty"`
	// With are the other objects that it came from.
	With []string `json:"with,omitempty"`
}

// Object is everything that one object became.
type Object struct {
	Object     snapshot.Ref `json:"object"`
	APIVersion string       `json:"apiVersion,omitempty"`
	Position   string       `json:"position,omitempty"`
	Nodes      []Node       `json:"nodes"`
	// Made are the objects that modules made of it, Written the fields that modules wrote in what became of it.
	Made        []string              `json:"made,omitempty"`
	Written     []translators.Written `json:"written,omitempty"`
	Diagnostics []report.Finding      `json:"diagnostics"`

	found []snapshot.Diagnostic
	refs  map[snapshot.Ref]bool
}

// Find returns the objects that KIND/NAMESPACE/NAME (or KIND/NAME) can mean, sorted. Kinds are compared without regard to case.
func Find(s *snapshot.Snapshot, name string) []*snapshot.Object {
	parts := strings.Split(name, "/")
	var found []*snapshot.Object
	for _, k := range s.Kinds() {
		if !strings.EqualFold(k.Kind, parts[0]) {
			continue
		}
		for o := range s.List(k) {
			switch {
			case len(parts) == 3 && o.Namespace == parts[1] && o.Name == parts[2],
				len(parts) == 2 && o.Name == parts[1]:
				found = append(found, o)
			}
		}
	}
	return found
}

// Follow returns everything that the object became in the result.
func Follow(r *translators.Result, o *snapshot.Object) *Object {
	t := &Object{Object: o.Ref, APIVersion: o.APIVersion, Position: o.Source.Position.String(), Nodes: []Node{}, refs: map[snapshot.Ref]bool{o.Ref: true}}
	t.modules(r)
	p := r.Program
	if p == nil {
		p = &ir.Program{}
	}
	for _, l := range p.Listeners {
		t.add("listener", l.Name, nil, fmt.Sprintf("%s:%d", l.Address, l.Port), l.Origins)
		for _, c := range l.Chains {
			t.add("filter chain", c.Name, []string{l.Name}, chain(c), c.Origins)
		}
	}
	for _, rc := range p.RouteConfigs {
		for _, v := range rc.VirtualHosts {
			t.add("virtual host", v.Name, []string{rc.Name}, strings.Join(v.Domains, ", "), v.Origins)
			for _, route := range v.Routes {
				t.add("route", route.Name, []string{rc.Name, strings.Join(v.Domains, ",")}, Match(&route.Match)+" → "+Action(route), route.Origins)
			}
		}
	}
	for _, c := range p.Clusters {
		detail := string(c.Discovery)
		if c.Host != "" {
			detail += fmt.Sprintf(" %s:%d", c.Host, c.Port)
		}
		if c.EndpointSet != "" {
			detail += " " + c.EndpointSet
		}
		t.add("cluster", c.Name, nil, detail, c.Origins)
	}
	for _, e := range p.EndpointSets {
		addresses := []string{}
		for _, a := range e.Endpoints {
			addresses = append(addresses, fmt.Sprintf("%s:%d", a.Address, a.Port))
		}
		t.add("endpoint set", e.Name, nil, strings.Join(addresses, ", "), e.Origins)
	}
	for _, s := range p.Secrets {
		t.add("secret", s.Name, nil, s.Fingerprint, s.Origins)
	}
	t.status(r)
	for _, d := range r.Diagnostics {
		if d.Object == o.Ref {
			t.found = append(t.found, d)
		}
	}
	t.Diagnostics = report.NewDocument(t.found).Diagnostics
	return t
}

// past are the operations of modules in words.
var past = map[string]string{"add": "added", "replace": "replaced", "patch": "changed", "remove": "removed"}

// modules takes up what modules made of the object, and what they wrote.
func (t *Object) modules(r *translators.Result) {
	for _, w := range slices.Concat(r.Written...) {
		if w.Phase != "lower" || !slices.Contains(w.Objects, t.Object) || strings.Contains(w.Kind, "/") {
			continue
		}
		kind, group, _ := strings.Cut(w.Kind, ".")
		if made := (snapshot.Ref{Group: group, Kind: kind, Namespace: w.Namespace, Name: w.Name}); !t.refs[made] {
			t.refs[made] = true
			t.Made = append(t.Made, made.String())
		}
	}
	for _, w := range slices.Concat(r.Written...) {
		if slices.ContainsFunc(w.Objects, func(o snapshot.Ref) bool { return t.refs[o] }) {
			t.Written = append(t.Written, w)
		}
	}
}

func chain(c *ir.FilterChain) string {
	var parts []string
	if len(c.Match.ServerNames) > 0 {
		parts = append(parts, "server name "+strings.Join(c.Match.ServerNames, ", "))
	}
	if c.TLS != nil {
		parts = append(parts, "TLS with "+strings.Join(c.TLS.Certificates, ", "))
	} else {
		parts = append(parts, "clear text")
	}
	switch {
	case c.HTTP != nil:
		parts = append(parts, "routes "+c.HTTP.RouteConfig)
	case c.TCP != nil:
		parts = append(parts, "TCP to "+Targets(c.TCP.Clusters))
	}
	return strings.Join(parts, "; ")
}

func (t *Object) add(kind, name string, within []string, detail string, origins []ir.Origin) {
	if !slices.ContainsFunc(origins, func(o ir.Origin) bool { return t.refs[o] }) {
		return
	}
	n := Node{Kind: kind, Name: name, Within: within, Detail: detail}
	for _, o := range origins {
		if o != t.Object {
			n.With = append(n.With, o.String())
		}
	}
	t.Nodes = append(t.Nodes, n)
}

// Write writes the trace for people.
func (t *Object) Write(w io.Writer, colour bool) error {
	var b strings.Builder
	b.WriteString(t.Object.String())
	if t.Position != "" {
		b.WriteString(" (" + t.Position + ")")
	}
	b.WriteString("\n")
	for i, n := range t.Nodes {
		if i == 0 || t.Nodes[i-1].Kind != n.Kind {
			b.WriteString("  " + n.Kind + "\n")
		}
		b.WriteString("    " + n.Name)
		if len(n.Within) > 0 {
			b.WriteString(" in " + strings.Join(n.Within, " / "))
		}
		b.WriteString("\n")
		if n.Detail != "" {
			b.WriteString("      " + n.Detail + "\n")
		}
		if len(n.With) > 0 {
			b.WriteString("      with " + strings.Join(n.With, ", ") + "\n")
		}
	}
	if len(t.Nodes) == 0 {
		b.WriteString("  became nothing\n")
	}
	for _, m := range t.Made {
		b.WriteString("  a module made " + m + " of it\n")
	}
	last := ""
	for _, w := range t.Written {
		head := fmt.Sprintf("  module %s (%s, phase %s) %s %s %s: %s\n", w.Module, strings.TrimPrefix(w.Digest, "sha256:")[:12], w.Phase, past[w.Op], w.Kind, w.Name, w.Reason)
		if head != last {
			b.WriteString(head)
			last = head
		}
		if w.Path != "" {
			b.WriteString("    " + w.Path + "\n")
		}
	}
	for _, d := range t.found {
		b.WriteString(report.Line(d, colour))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
