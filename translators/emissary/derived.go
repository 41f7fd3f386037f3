package emissary

import (
	"regexp"
	"strings"

	"github.com/chancery-gateway/chancery/snapshot"
	api "github.com/chancery-gateway/chancery/snapshot/api/v3alpha1"
	"github.com/chancery-gateway/chancery/translators/ir"
)

// Derived is a Mapping that an object of another kind stands for, with what a Mapping itself cannot say.
type Derived struct {
	// Name tells the routes of one object apart.
	Name string
	Spec *api.MappingSpec
	// At is the field of the object that findings are about; "" leaves the Mapping's own.
	At string
	// Labels are what Hosts select by; nil for the object's own.
	Labels map[string]string
	// Sole: see ir.RouteFragment.
	Sole bool
	// Segments compares the prefix element by element.
	Segments bool
	// OneLabel lets the "*" of a hostname such as "*.example.com" stand for one label; Except are names that it does not take.
	OneLabel bool
	Except   []string
	// Checked warns of a Service or port that is not there, however its endpoints are found.
	Checked bool
	// Status is answered in place of what the service would; 0 asks the service.
	Status uint32
}

// Options are those of the installation, with the defaults filled in.
func (f *FrontEnd) Options() Options { return f.options }

// LowerMapping lowers a Mapping that an object of another kind stands for: fragments and findings are that object's.
func (f *FrontEnd) LowerMapping(o *snapshot.Object, d *Derived, v *snapshot.View) *ir.Fragments {
	l := lowerings.Get().(*lowering)
	defer lowerings.Put(l)
	as := *o
	as.Spec = d.Spec
	l.begin(f, &as, v)
	l.set, l.derived = f.module(v), d
	l.mapping(d.Spec)
	l.derived = nil
	for _, r := range l.out.Routes {
		r.Origin, r.Route.Name = o, o.Namespace+"/"+o.Name+"-"+d.Name
	}
	for i := range l.out.Diagnostics {
		if d.At != "" {
			l.out.Diagnostics[i].Path = d.At
		}
	}
	return l.out
}

// derive adds to a Mapping's route what only objects of other kinds say.
func (l *lowering) derive(r *ir.RouteFragment) {
	d, m := l.derived, &r.Route.Match
	r.At, r.Sole = d.At, d.Sole
	if d.Labels != nil {
		r.Labels = d.Labels
	}
	if path := strings.TrimRight(m.Path, "/"); d.Segments && path != "" { // "/" takes every path, as a plain prefix does
		m.PathKind, m.Path = ir.PathSegments, path
	}
	if d.OneLabel && strings.HasPrefix(r.Hosts.Value, "*.") {
		r.Authority = nil
		m.Headers = append(m.Headers, ir.ValueMatch{Name: ":authority", Kind: ir.ValueRegex, Value: "(?i)[^.]+" + regexp.QuoteMeta(r.Hosts.Value[1:])})
		for _, name := range d.Except {
			m.Headers = append(m.Headers, ir.ValueMatch{Name: ":authority", Kind: ir.ValueExact, Value: name, Invert: true, IgnoreCase: true})
		}
		sortMatches(m.Headers)
	}
	if d.Status != 0 {
		r.Route.Direct = &ir.DirectResponse{Status: d.Status}
	}
}

// LowerHost lowers a Host of this name that an object of another kind stands for: fragments and findings are that object's.
func (f *FrontEnd) LowerHost(o *snapshot.Object, name string, spec *api.HostSpec, v *snapshot.View) *ir.Fragments {
	l := lowerings.Get().(*lowering)
	defer lowerings.Put(l)
	as := *o
	as.Name, as.Spec = name, spec
	l.begin(f, &as, v)
	l.set = f.module(v)
	l.host(spec)
	for _, h := range l.out.Hosts {
		h.Origin = o
	}
	for i := range l.out.Diagnostics {
		l.out.Diagnostics[i].Object = o.Ref
	}
	return l.out
}
